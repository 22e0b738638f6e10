package rules_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

// forever is the longest duration.
const forever = time.Duration(math.MaxInt64)

// A row is a decision at an instant. Without more, nobody has touched the connection since
// the start, and it is due just now.
type row struct {
	now  rules.Time
	with func(e *rules.Evidence) // what is different
	want rules.Outcome
}

// trace decides about a connection, row by row.
func trace(t *testing.T, p rules.Policy, s rules.State, rows ...row) rules.State {
	t.Helper()
	p.Tick, p.Blur = tick, max(tick, p.Blur)
	if p.Timeout == 0 {
		p.Timeout = 16 * tick
	}
	unread := false
	for i, r := range rows {
		e := rules.Evidence{Socket: silentSocket, Quiet: true, Due: true, DueAt: r.now, Begun: r.now}
		e.Unread = unread
		if r.with != nil {
			r.with(&e)
		}
		var out rules.Outcome
		s, out = rules.Decide(&p, s, &e, r.now)
		unread = e.Socket.Unread > 0
		require.Equal(t, r.want, out, "row %d, at %v; state %+v", i, time.Duration(r.now), s)
	}
	return s
}

var silentSocket = rules.Socket{Heard: rules.Unknown, Received: rules.Unknown, Sent: rules.Unknown}

// mute is a socket without any sign of life.
func mute(e *rules.Evidence) { e.Socket = silentSocket }

// asked is what the socket says.
func asked(k rules.Socket) func(e *rules.Evidence) {
	return func(e *rules.Evidence) { e.Socket = k }
}

// backlog is a socket with a backlog: the peer last took some of it at an instant.
func backlog(took rules.Time) func(e *rules.Evidence) {
	return func(e *rules.Evidence) {
		mute(e)
		e.Socket.Backlog, e.Socket.Took = true, took
	}
}

// and joins pieces of evidence.
func and(with ...func(e *rules.Evidence)) func(e *rules.Evidence) {
	return func(e *rules.Evidence) {
		for _, f := range with {
			f(e)
		}
	}
}

func life(l rules.Life) func(e *rules.Evidence) { return func(e *rules.Evidence) { e.Life = l } }

func touchedAt(at rules.Time) func(e *rules.Evidence) {
	return func(e *rules.Evidence) { e.Touched, e.Quiet, e.Due = at, false, false }
}

func dueAt(at rules.Time) func(e *rules.Evidence) { return func(e *rules.Evidence) { e.DueAt = at } }

func sent(e *rules.Evidence)   { e.Answer.Probed = rules.Sent }
func failed(e *rules.Evidence) { e.Answer.Probed = rules.Failed }

// retryAt is when to try again, since the rate allows no more closes.
func retryAt(at rules.Time) func(e *rules.Evidence) { return func(e *rules.Evidence) { e.Retry = at } }

func answer(why rules.Reason, v rules.Verdict) func(e *rules.Evidence) {
	return func(e *rules.Evidence) {
		a := e.About(why)
		a.For, a.Verdict, a.Asked = why, v, rules.Never
	}
}

// probedFor is what came of a probe for ReadIdle or WriteIdle, since the user has said so.
func probedFor(why rules.Reason, what rules.Probed) func(e *rules.Evidence) {
	return and(answer(why, rules.ProbeIt), func(e *rules.Evidence) { e.About(why).Probed = what })
}

func wait(until rules.Time) rules.Outcome { return rules.Outcome{Do: rules.Wait, Until: until} }

var probe = rules.Outcome{Do: rules.Probe} // since the peer is silent

// probeFor is a probe because of ReadIdle or WriteIdle.
func probeFor(why rules.Reason) rules.Outcome { return rules.Outcome{Do: rules.Probe, Why: why} }

func ask(why rules.Reason) rules.Outcome { return rules.Outcome{Do: rules.Ask, Why: why} }

// ifAllowed is a close if the rate allows it.
func ifAllowed(out rules.Outcome) rules.Outcome {
	out.Paced = true
	return out
}

func closes(why rules.Reason) rules.Outcome { return rules.Outcome{Do: rules.Close, Why: why} }

func ends(why rules.Reason) rules.Outcome {
	return rules.Outcome{Do: rules.Close, Why: why, Anyway: true}
}

func counted(out rules.Outcome, why rules.Reason) rules.Outcome {
	out.Would[why] = true
	return out
}

// heard is a sign of life, and waiting for this program.
func heard(at rules.Time) rules.Outcome {
	return rules.Outcome{Do: rules.Heard, Until: at, Spared: true}
}

// sparedUntil is waiting for this program, with nothing left to read.
func sparedUntil(until rules.Time) rules.Outcome {
	return rules.Outcome{Do: rules.Wait, Until: until, Spared: true}
}

func slowUntil(until rules.Time) rules.Outcome {
	return rules.Outcome{Do: rules.Wait, Until: until, Spared: true, Slow: true}
}
