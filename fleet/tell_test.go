package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
)

// slowStore answers sweep and get late.
type slowStore struct {
	store
	late time.Duration
}

func (s slowStore) sweep(ctx context.Context, limit int, outcomes []told) (swept, error) {
	defer time.Sleep(s.late)
	return s.store.sweep(ctx, limit, outcomes)
}

func (s slowStore) get(ctx context.Context, ids []string) ([]found, error) {
	time.Sleep(s.late)
	return s.store.get(ctx, ids)
}

// tornStore is on several servers. One without sessions is away.
type tornStore struct {
	store
	settled *atomic.Int32
}

func (s tornStore) sweep(ctx context.Context, limit int, outcomes []told) (swept, error) {
	s.settled.Add(int32(len(outcomes)))
	result, err := s.store.sweep(ctx, limit, outcomes)
	return result, errors.Join(err, errAway)
}

func TestWhatWasSettledIsNotSettledAgainWhereAnotherSlotFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		kept := tornStore{newShared(nodeConfig).connect("a"), new(atomic.Int32)}
		cfg := nodeConfig
		cfg.OnOffline = func(context.Context, Offline) error { return nil }
		n := nodeOn(t, cfg.withDefaults(), kept)
		for i := range 100 {
			s, _ := register(t, n, fmt.Sprint(i))
			s.Close()
			time.Sleep(time.Second)
		}
		require.EqualValues(t, 100, kept.settled.Load())
	})
}

func TestOutcomesOfSlotsThatFailAreOpen(t *testing.T) {
	server := testserver.Redis(t)
	cfg := quick(prefix(), "a")
	cfg.Slots = 2
	s := openStore(t, server.URL, cfg, incarnation{1})
	for _, key := range s.keys[1] {
		require.NoError(t, connect(t, server).Set(ctx, key.(string), "what does not belong here", 0).Err())
	}
	var outcomes, bad []told
	for i := range 3 * batchSize {
		outcome := told{event: event{id: fmt.Sprint(i)}, done: true}
		if outcomes = append(outcomes, outcome); slotAmong(outcome.event.id, 2) == 1 {
			bad = append(bad, outcome)
		}
	}
	result, err := s.sweep(ctx, 0, outcomes)
	require.ErrorContains(t, err, "WRONGTYPE")
	require.Equal(t, bad, result.open)
	require.NoError(t, s.close())
	result, err = s.sweep(ctx, 0, outcomes)
	require.ErrorIs(t, err, ErrClosed)
	require.ElementsMatch(t, outcomes, result.open)
}

func TestManyEndsAreToldInShortTimeByARedisThatIsBusy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		shared := newShared(nodeConfig)
		cfg := nodeConfig
		var told atomic.Int32
		cfg.OnOffline = func(context.Context, Offline) error { told.Add(1); return nil }
		n := nodeOn(t, cfg.withDefaults(), slowStore{shared.connect("a"), 2 * freshness})
		const count = 5000
		for i := range count {
			s, _ := register(t, n, fmt.Sprint(i))
			s.Close()
		}
		time.Sleep(5 * time.Second)
		require.EqualValues(t, count, told.Load())
	})
}

// A node with enough to tell goes on looking: its looks prove to the slots that Redis is there.
func TestANodeThatIsBusyTellingIsNoOutage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := beatConfig
		cfg.OnOffline = func(context.Context, Offline) error { time.Sleep(25 * time.Second); return nil }
		n := (&fleetOf{shared: newShared(cfg)}).add(t, "node", cfg)
		for i := range 3 * tellBatch {
			s, _ := register(t, n, fmt.Sprint(i))
			s.Close()
		}
		time.Sleep(5 * time.Minute)
		require.Zero(t, n.Stats().Held)
	})
}

func TestWhatWasLookedAtTogetherIsToldAtTheSameTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		shared := newShared(nodeConfig)
		cfg := nodeConfig
		var told atomic.Int32
		cfg.OnOffline = func(context.Context, Offline) error { time.Sleep(10 * time.Second); told.Add(1); return nil }
		n, err := newNode(cfg.withDefaults(), slowStore{shared.connect("a"), 2 * freshness})
		require.NoError(t, err)
		for i := range defaultCalls {
			s, _ := register(t, n, fmt.Sprint(i))
			s.Close()
		}
		time.Sleep(32 * time.Second) // the first look may come amid the closing, and the rest with the next ones
		require.EqualValues(t, defaultCalls, told.Load(), "one after the other would take 160 s")
		for i := range 10 * defaultCalls {
			s, _ := register(t, n, fmt.Sprint(i))
			s.Close()
		}
		time.Sleep(time.Second)
		began := time.Now()
		require.NoError(t, n.Close())
		require.Less(t, time.Since(began), 12*time.Second, "it tells no more than it has begun to tell")
	})
}

func TestWhatWaitsToBeToldIsLookedAtAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 1, nodeConfig)
		cfg := nodeConfig
		cfg.Calls = 1
		type registration struct {
			epoch int64
			at    time.Time
		}
		newest := make(map[string]registration) // by session, guarded by f.mu
		cfg.OnOffline = func(_ context.Context, o Offline) error {
			f.set(func() {
				r := newest[o.Session]
				if age := time.Since(r.at); o.Epoch < r.epoch && age > freshness {
					t.Errorf("%s is told to be offline, and was registered %v ago", o.Session, age)
				}
			})
			time.Sleep(2 * freshness)
			return nil
		}
		f.nodes[0].Close() // it would tell, too
		n, silent := f.add(t, "tells", cfg), cfg
		silent.OnOffline = nil
		other := f.add(t, "other", silent)
		const count = 300
		for i := range count {
			s, _ := register(t, n, fmt.Sprint(i))
			s.Close()
		}
		for i := range count {
			time.Sleep(freshness)
			s, _ := register(t, other, fmt.Sprint(count-1-i))
			f.set(func() { newest[s.ID()] = registration{s.Epoch(), time.Now()} })
		}
		time.Sleep(time.Minute)
		require.InDelta(t, count/3, n.Stats().Told, count/6)
		require.Equal(t, count, other.Len())
	})
}

func TestTheLogSaysWhenEndsCanBeLookedForAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fleetOf{shared: newShared(nodeConfig)}
		var log bytes.Buffer
		cfg := f.diary.config(nodeConfig)
		cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		n := f.add(t, "node", cfg)
		for range 2 {
			f.set(func() { f.fakes[0].deaf = true })
			time.Sleep(time.Minute)
			f.set(func() { f.fakes[0].deaf = false })
			time.Sleep(time.Minute)
		}
		n.Close()
		require.Equal(t, 2, strings.Count(log.String(), "ends of sessions can't be looked for"))
		require.Equal(t, 2, strings.Count(log.String(), "ends of sessions are looked for again"))
	})
}

// If the answer of a call was lost, the ends it took are told at once, and not only when others may
// take them.
func TestEndsThatWereTakenAndGotLostAreTakenAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 1, nodeConfig)
		f.set(func() { f.fakes[0].deaf = true })
		for i := range 100 {
			s, _ := register(t, f.nodes[0], fmt.Sprint(i))
			s.Close()
		}
		time.Sleep(3 * time.Second)
		f.set(func() { f.fakes[0].deaf = false })
		time.Sleep(time.Second)
		require.Len(t, f.diary.offlines(), 100)
		for _, end := range f.diary.offlines() {
			require.Equal(t, 1, end.Attempt, "nobody was told before")
		}
		long(time.Hour)
		require.Len(t, f.diary.offlines(), 100)
		require.Zero(t, f.kept())
	})
}

func TestALookAsSeldomAsMayBeIsNoOutage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fleetOf{shared: newShared(nodeConfig)}
		cfg := f.diary.config(nodeConfig)
		cfg.Node, cfg.Sweep = "a", 15*time.Second // half of a renewal
		cfg = cfg.withDefaults()
		require.NoError(t, cfg.check())
		n := nodeOn(t, cfg, slowStore{f.connect("a"), time.Second})
		register(t, f.add(t, "dead", nodeConfig), "a")
		f.set(func() { f.fakes[0].cut = true })
		time.Sleep(2 * time.Minute)
		require.Len(t, f.diary.offlines(), 1)
		require.Zero(t, n.Stats().Held)
	})
}
