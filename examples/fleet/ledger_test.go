package main

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/examples/fleet/internal/gateway"
)

func offline(id string, epoch int64, reason string) gateway.Event {
	return gateway.Event{Name: "offline", Session: id, Epoch: epoch, Reason: reason}
}

// Each possible fault is seen.
func TestTheVerdict(t *testing.T) {
	for name, test := range map[string]struct {
		happens func(l *ledger)
		want    verdict
	}{
		"all is well": {
			func(l *ledger) {
				l.expect("s", "expired")
				l.gone("s", 5)
				l.event(offline("s", 5, "expired"))
			},
			verdict{Expected: 1, Seen: 1},
		},
		"told again": {
			func(l *ledger) {
				l.expect("s", "expired")
				l.gone("s", 5)
				l.event(offline("s", 5, "expired"))
				l.event(offline("s", 5, "expired"))
			},
			verdict{Expected: 1, Seen: 1, Again: 1},
		},
		"it came back with a higher epoch": {
			func(l *ledger) {
				l.gone("s", 5)
				l.welcome("s", "b", 7, "moved")
				l.gone("s", 5) // late
				l.event(offline("s", 5, "expired"))
			},
			verdict{Older: 1},
		},
		"it came back, and is told to be offline nevertheless": {
			func(l *ledger) {
				l.gone("s", 5)
				l.welcome("s", "b", 7, "moved")
				time.Sleep(crossing + 1)
				l.event(offline("s", 5, "expired"))
			},
			verdict{Wrong: 1},
		},
		"it came back twice, and is told to be offline nevertheless": {
			func(l *ledger) {
				l.welcome("s", "b", 7, "moved")
				time.Sleep(crossing)
				l.welcome("s", "c", 9, "moved")
				time.Sleep(time.Nanosecond)
				l.event(offline("s", 5, "expired"))
			},
			verdict{Wrong: 1},
		},
		"told right before its connection is seen to end": {
			func(l *ledger) {
				l.event(offline("s", 5, "closed"))
				time.Sleep(crossing)
				l.gone("s", 5)
				l.welcome("s", "b", 7, "new")
			},
			verdict{Older: 1},
		},
		"it was there, and comes back only then": {
			func(l *ledger) {
				l.event(offline("s", 5, "expired"))
				time.Sleep(crossing + 1)
				l.gone("s", 5)
				l.welcome("s", "b", 7, "new")
			},
			verdict{Wrong: 1},
		},
		"it was there, and is expected to end only then": {
			func(l *ledger) {
				l.event(offline("s", 5, "expired"))
				l.expect("s", "expired")
				l.gone("s", 5)
			},
			verdict{Expected: 1, Wrong: 1},
		},
		"told again when it is back": {
			func(l *ledger) {
				l.gone("s", 5)
				l.event(offline("s", 5, "expired"))
				l.welcome("s", "b", 7, "new")
				time.Sleep(time.Minute)
				l.event(offline("s", 5, "expired"))
			},
			verdict{Older: 1},
		},
		"a visitor was there": {
			func(l *ledger) { l.event(offline("nobody", 8, "closed")) },
			verdict{},
		},
		"lost": {
			func(l *ledger) { l.expect("s", "expired"); l.gone("s", 5) },
			verdict{Expected: 1, Lost: 1},
		},
		"only an older one was told": {
			func(l *ledger) {
				l.welcome("s", "b", 7, "moved")
				l.expect("s", "expired")
				l.gone("s", 7)
				l.event(offline("s", 5, "expired"))
			},
			verdict{Expected: 1, Lost: 1, Older: 1},
		},
		"it is there": {
			func(l *ledger) { l.event(offline("s", 5, "expired")) },
			verdict{Wrong: 1},
		},
		"it came back, and the new one is told": {
			func(l *ledger) { l.welcome("s", "b", 7, "moved"); l.event(offline("s", 7, "expired")) },
			verdict{Wrong: 1},
		},
		"it was drained": {
			func(l *ledger) { l.welcome("s", "b", 7, "new"); l.event(offline("s", 5, "detached")) },
			verdict{Wrong: 1},
		},
		"for another reason": {
			func(l *ledger) { l.expect("s", "kicked"); l.event(offline("s", 5, "expired")) },
			verdict{Expected: 1, Wrong: 1},
		},
		"it did not come back": {
			func(l *ledger) { l.gone("s", 5) },
			verdict{Absent: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLedger()
				l.welcome("s", "a", 5, "new")
				l.welcome("t", "a", 6, "new")
				test.happens(l)
				test.want.Sessions = 2
				got := l.judge()
				require.Equal(t, test.want, got)
				require.Equal(t, got.Wrong+got.Lost+got.Absent == 0, got.pass())
			})
		})
	}
}

func TestAClientThatWasNeverThereIsAbsent(t *testing.T) {
	l := newLedger()
	l.enrol("s")
	require.Equal(t, verdict{Sessions: 1, Absent: 1}, l.judge())
}

func TestOnlyTheLastEventsAreKept(t *testing.T) {
	l := newLedger()
	for i := range 3 * kept {
		l.event(gateway.Event{Name: "online", Epoch: int64(i)})
	}
	require.Len(t, l.latest(), kept)
	require.EqualValues(t, 3*kept-1, l.latest()[0].Epoch)
}
