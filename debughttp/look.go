package debughttp

import (
	"context"
	"time"
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
	q := query{sort: byIdle, desc: byIdle.desc, limit: maxIdlest}
	s := selection{q: &q}
	h.eachOpen(context.Background(), &q, func(e *entry) bool { s.offer(e); return true })
	idlest, _ := s.page()
	cost := time.Since(begin)
	l.idlest, l.at = h.idlest(idlest), time.Now()
	l.fresh = l.at.Add(freshShare * cost)
}

// idlest returns the open ones of some connections, for the page.
func (h *Handler) idlest(entries []entry) []Idle {
	idlest := []Idle{}
	for i := range entries {
		guard := entries[i].guard
		info, guarded := guard.Info()
		at, reason, open := guard.Deadline()
		if !guarded || !open {
			continue
		}
		idlest = append(idlest, Idle{
			ID:        info.ID,
			Addr:      h.names.of(entries[i].Remote),
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
