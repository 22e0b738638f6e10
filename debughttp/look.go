package debughttp

import (
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// never is so long that a deadline is none.
const never = 100 * 365 * 24 * time.Hour

// look is the last look for the idlest connections. Among a million it may take long, so the next
// look comes after 20 times as long. Only the taker of a snapshot uses it. It keeps no
// connection.
type look struct {
	idlest []Idle
	at     time.Time
	fresh  time.Time // until when there is no other look
}

// refresh looks again, unless the last look is fresh.
func (l *look) refresh(h *Handler) {
	begin := time.Now()
	if begin.Before(l.fresh) {
		return
	}
	conns := h.keeper.Idlest(maxIdlest)
	cost := time.Since(begin)
	l.idlest, l.at = h.idlest(conns), time.Now()
	l.fresh = l.at.Add(freshShare * cost)
}

// idlest returns the open ones of some connections, for the page.
func (h *Handler) idlest(conns []any) []Idle {
	idlest := []Idle{}
	for _, conn := range conns {
		guard := keepalive.Of(conn)
		if guard == nil {
			continue
		}
		seen, _ := keeping.Look(guard)
		info, guarded := guard.Info()
		at, reason, open := guard.Deadline()
		if !guarded || !open {
			continue
		}
		idlest = append(idlest, Idle{
			ID:        info.ID,
			Addr:      h.names.of(seen.Remote),
			Idle:      info.Idle.Seconds(),
			Timeout:   info.Timeout.Seconds(),
			Age:       info.Age.Seconds(),
			Ends:      nameOf(reason),
			RoundTrip: info.RoundTrip.Seconds(),
			Held:      info.Held,
			Left:      secondsLeft(at, reason, info.Held),
		})
	}
	return idlest
}
