package fleet

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// losses are what a server may do to a session just registered: lose all data, or go back to older.
var losses = map[string]func(m, older *model){
	"loss":     func(m, _ *model) { m.lose(); m.server = "b" },
	"failover": func(m, older *model) { m.failOver(older, "b") },
}

func eachLoss(t *testing.T, test func(t *testing.T, f *fleetOf, s *Session, lose func())) {
	for name, loss := range losses {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFleet(t, 2, nodeConfig)
				register(t, f.nodes[1], "other")
				time.Sleep(time.Second)
				var older *model
				f.set(func() { older = f.model.clone() })
				s, _ := register(t, f.nodes[0], "a")
				time.Sleep(time.Second)
				test(t, f, s, func() { f.set(func() { loss(f.model, older) }) })
			})
		})
	}
}

func TestASessionLostByRedisAndClosedBeforeItsRenewalIsToldOnce(t *testing.T) {
	eachLoss(t, func(t *testing.T, f *fleetOf, s *Session, lose func()) {
		lose()
		time.Sleep(time.Second)
		require.NoError(t, s.Close())
		time.Sleep(5 * time.Minute)
		require.Len(t, f.diary.offlines(), 1)
		end := f.diary.offlines()[0]
		require.Equal(t, ReasonClosed, end.Reason)
		require.Equal(t, s.Epoch(), end.Epoch)
		require.Equal(t, "node-0", end.Node)
		require.Equal(t, "meta of a", string(end.Meta))
	})
}

func TestASessionLostByRedisAndDetachedBeforeItsRenewalIsResumed(t *testing.T) {
	for name, leave := range map[string]func(*fleetOf, *Session) error{
		"detach": func(_ *fleetOf, s *Session) error { s.Detach(); return nil },
		"drain":  func(f *fleetOf, _ *Session) error { return f.nodes[0].Drain(ctx) },
		"close":  func(f *fleetOf, _ *Session) error { return f.nodes[0].Close() },
	} {
		t.Run(name, func(t *testing.T) {
			eachLoss(t, func(t *testing.T, f *fleetOf, s *Session, lose func()) {
				lose()
				time.Sleep(time.Second)
				require.NoError(t, leave(f, s))
				time.Sleep(5 * time.Second)
				anew, _ := register(t, f.nodes[1], "a")
				require.True(t, anew.Resumed())
				time.Sleep(5 * time.Minute)
				require.Empty(t, f.diary.offlines())
			})
		})
	}
}

// The server has lost the move, too: the earlier node's word does not count.
func TestASessionThatHasMovedIsNotEndedByItsEarlierNodeAfterALoss(t *testing.T) {
	eachLoss(t, func(t *testing.T, f *fleetOf, s *Session, lose func()) {
		f.set(func() { f.fakes[0].cut = true }) // it does not hear of the move
		anew, _ := register(t, f.nodes[1], "a")
		time.Sleep(time.Second)
		lose()
		f.set(func() { f.fakes[0].cut = false })
		require.NoError(t, s.Close())
		time.Sleep(5 * time.Minute)
		require.True(t, anew.Alive())
		for _, end := range f.diary.offlines() {
			require.Less(t, end.Epoch, f.diary.onlines()[2].Epoch) // the application drops it
		}
	})
}

// The node has heard of a kick when the server loses it. The end has the session's reason.
func TestAKickLostByRedisAfterTheNodeHasHeardOfItIsToldAsOne(t *testing.T) {
	told := func(t *testing.T, f *fleetOf, s *Session, lose func()) {
		f.set(func() { f.fakes[0].full = true }) // it can't end the session yet
		require.NoError(t, f.nodes[1].Kick(ctx, "a"))
		time.Sleep(time.Second)
		require.Equal(t, ReasonKicked, s.Reason())
		lose()
		f.set(func() { f.fakes[0].full = false })
		time.Sleep(5 * time.Minute)
		require.Len(t, f.diary.offlines(), 1)
		require.Equal(t, ReasonKicked, f.diary.offlines()[0].Reason)
	}
	eachLoss(t, told)
	t.Run("failover, and the session is still there", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			f := newFleet(t, 2, nodeConfig)
			s, _ := register(t, f.nodes[0], "a")
			var older *model
			f.set(func() { older = f.model.clone() })
			told(t, f, s, func() { f.set(func() { f.model.failOver(older, "b") }) })
		})
	})
}
