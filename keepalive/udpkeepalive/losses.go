package udpkeepalive

import (
	"sync/atomic"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// losses knows of the datagrams dropped by a full socket. Perhaps they were the heartbeats of the
// silent sessions. So a session gets its timeout once more if its silence saw a loss: once, or a
// socket with a few losses now and then would keep all sessions for ever.
//
// A spared session has the time of that in its guard's scratch, in grains since begun.
type losses struct {
	begun time.Time
	known uint32
	last  time.Time // when known was found to have changed, or zero
}

// grain is the unit of such a time. 32 bits of it last for 13 years.
const grain = 100 * time.Millisecond

// see notes the number of datagrams lost so far.
func (l *losses) see(lost uint32) {
	if lost != l.known {
		l.known, l.last = lost, time.Now()
	}
}

// spare touches a session at the end of its timeout if it has to be spared. The end of a
// FirstMessage is no such end: a flood makes losses, and sessions of nobody.
func (l *losses) spare(g *keepalive.Guard) {
	if l.last.IsZero() {
		return
	}
	at, reason, _ := g.Deadline()
	info, open := g.Info()
	now := time.Now()
	touched := now.Add(-info.Idle)
	if !open || at.After(now) || touched.After(l.last) {
		return
	}
	if reason != keepalive.ReasonIdle && reason != keepalive.ReasonNoAnswer {
		return
	}
	scratch := g.Binding().Scratch() // another loop may have the session since it has moved
	if spared := atomic.LoadUint32(scratch); spared > 0 && !touched.After(l.time(spared).Add(blur(info.Timeout))) {
		return // nothing was heard since
	}
	atomic.StoreUint32(scratch, uint32(now.Sub(l.begun)/grain)+1)
	g.Touch()
}

// time returns the end of a spared session's grain.
func (l *losses) time(spared uint32) time.Time {
	return l.begun.Add(time.Duration(spared) * grain)
}

// blur is more than the Keeper's touches are too late: two ticks and a sleep of its clock.
func blur(timeout time.Duration) time.Duration { return max(timeout/4, 200*time.Millisecond) }
