package keepalive

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

// Shed says which connections [Keeper.Shed] tells to leave, and how fast.
type Shed struct {
	// Share and Count say how many: a share, from 0 to 1, of the connections at the time of the call, rounded; or a
	// number, and all of them if there are fewer. One of the two must be zero, and both mean none.
	Share float64
	Count int

	// Random is whether they leave in no order. Otherwise the oldest come first: a client that has just come back stays.
	Random bool

	// PerSecond is how many are told in a second, evenly spread. Zero means all at once.
	PerSecond int
}

func (s Shed) check() error {
	switch {
	case !(s.Share >= 0 && s.Share <= 1): // or not a number
		return wrong("Shed.Share %v, must be 0 to 1", s.Share)
	case s.Share > 0 && s.Count > 0:
		return wrong("Shed.Share %v with Shed.Count %d, one must be zero", s.Share, s.Count)
	}
	return cmp.Or(within("Shed.Count", s.Count, math.MaxInt), within("Shed.PerSecond", s.PerSecond, 1e9))
}

// of returns how many of all connections leave.
func (s Shed) of(all int) int {
	return min(all, s.Count+int(math.Round(s.Share*float64(all))))
}

// sort brings connections into their order.
func (s Shed) sort(guards []*Guard) {
	if s.Random {
		rand.Shuffle(len(guards), func(i, j int) { guards[i], guards[j] = guards[j], guards[i] })
		return
	}
	slices.SortFunc(guards, func(a, b *Guard) int { return cmp.Compare(a.id, b.id) })
}

// Shed lets a part of the connections leave with [ReasonShed], so that their clients come back, and a new server gets its
// part of them. It returns how many were told to leave, and waits until all of these have gone. Connections are accepted as
// before: whether one comes back to this server is for the load balancer. Those that come during the call stay.
//
// A connection is told as at its maximum age. One of net/http ends between two requests, whose last response says so, see
// package httpkeepalive; a WebSocket gets its close frame, with status 1001; any other one its farewell. If there is an
// Age.OnMax, that is called first, and the connection stays for Age.Grace, unless it is of net/http. Connections that are
// held come last, and those that leave already are left out. Neither Closing.MaxPerSecond nor Closing.DryRun concerns Shed.
//
// If ctx is done first, no more are told. Those that were told go nevertheless, and the error wraps ctx.Err() and says how
// many are still there. A drain ends the call with an error that wraps [ReasonDrain], since it closes all of them, and
// Keeper.Close with one that wraps [ErrNotGuarded]. Shed returns [ErrArgument] for an impossible s. Two calls at the same
// time tell different connections. Shed waits for functions of the Config, as Drain does.
func (k *Keeper) Shed(ctx context.Context, s Shed) (n int, err error) {
	k.must("Shed")
	if err := s.check(); err != nil {
		return 0, err
	}
	guards := slices.Collect(k.Guards())
	s.sort(guards)
	told, err := k.shed(ctx, guards, s.of(len(guards)), s.PerSecond)
	for n = len(told); err == nil && len(told) > 0; {
		if told[0].hasEnded() && !k.closed.Load() {
			told = told[1:]
			continue
		}
		sleep(ctx, drainPoll)
		err = k.shedError(ctx, len(told), "still there")
	}
	return n, err
}

// shed tells so many connections to leave, and returns them.
func (k *Keeper) shed(ctx context.Context, guards []*Guard, want, perSecond int) (told []*Guard, err error) {
	if err := k.shedError(ctx, want, "not told"); err != nil {
		return nil, err
	}
	begun, logged := time.Now(), time.Now()
	for _, held := range []bool{false, true} {
		for _, g := range guards {
			if len(told) == want {
				return told, nil
			}
			if perSecond > 0 {
				if early := time.Until(begun.Add(time.Duration(float64(len(told)) / float64(perSecond) * float64(time.Second)))); early > 0 {
					sleep(ctx, early)
				}
			}
			if err := k.shedError(ctx, want-len(told), "not told"); err != nil {
				return told, err
			}
			if time.Since(logged) >= drainLog {
				k.log.Info("keepalive: shedding", "told", len(told), "of", want)
				logged = time.Now()
			}
			if g.shed(held) {
				told = append(told, g)
			}
		}
	}
	return told, nil
}

// shedError returns why a Shed ends early, or nil.
func (k *Keeper) shedError(ctx context.Context, left int, which string) error {
	why := ctx.Err()
	switch {
	case k.closed.Load():
		why = ErrNotGuarded
	case k.draining.Load():
		why = ReasonDrain
	}
	if why == nil {
		return nil
	}
	return fmt.Errorf("keepalive: shed with %d connections %s: %w", left, which, why)
}

// shed tells the connection to leave, held or only if it is not. It reports false if the connection stays, or leaves already.
func (g *Guard) shed(held bool) bool {
	graced := g.keeper.policy.Load().Age.OnMax != nil
	return g.dismiss(ReasonShed, func(s rules.State) (rules.State, bool) {
		exchanges := g.openExchanges() != nil
		switch {
		case !g.isOpen() || g.reason() != 0 || s.Doom.Why != 0 || s.Age.Told != 0 || !held && s.Holds > 0 && !exchanges:
			return s, false
		case graced && !exchanges:
			return s.Warned(rules.Shed), true
		}
		return s.Dismissed(rules.Shed), true
	})
}
