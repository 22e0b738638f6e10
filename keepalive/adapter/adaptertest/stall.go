package adaptertest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

func stallTests() []test {
	all := []test{
		{name: "stall/all", of: slowProgram, run: stallOfAllKillsNobody},
		{name: "stall/gone", of: peersClose, run: stallHidesAnEnd},
	}
	for _, activity := range activities {
		all = append(
			all,
			test{name: "stall/living/" + activity.String(), of: slowProgram, run: func(r *rig) { stallKillsNobody(r, activity) }},
			test{name: "stall/silent/" + activity.String(), of: slowProgram, run: func(r *rig) { stallKeepsNobody(r, activity) }},
		)
	}
	return all
}

// A handler blocks for three timeouts. Its peer goes on to speak, and so does another one,
// perhaps in the same event loop. Nobody is closed, and all lines are answered.
func stallKillsNobody(r *rig, activity keepalive.Activity) {
	r.serve(keepalive.Config{Activity: activity})
	r.attempt(func() bool { return surviveStall(r.dialMany(2), 1) })
}

// All handlers block at the same time, as in a stopped program.
func stallOfAllKillsNobody(r *rig) {
	r.serve(keepalive.Config{Activity: keepalive.ActivityManual})
	r.attempt(func() bool { return surviveStall(r.dialMany(4), 4) })
}

// surviveStall has the handlers of the first clients block, and all clients speak. It reports
// false if the suite was late with a beat.
func surviveStall(clients []*client, blocked int) bool {
	var stalls []*stall
	for _, c := range clients[:blocked] {
		stalls = append(stalls, c.stall())
	}
	for begin := time.Now(); time.Since(begin) < 3*timeout; time.Sleep(beat) {
		for _, c := range clients {
			_ = c.say("beat") // it may be closed
		}
	}
	for _, s := range stalls {
		s.end()
	}
	for _, c := range clients {
		for i := 1; i < len(c.said); i++ { // without its name
			if c.hear(i) != nil {
				c.requireLate()
				return false
			}
		}
	}
	return true
}

// A handler blocks, its peer says one thing more, and then nothing. Bytes in the socket put
// the end off, but not for ever.
func stallKeepsNobody(r *rig, activity keepalive.Activity) {
	r.serve(keepalive.Config{Activity: activity})
	r.attempt(func() bool {
		c := r.dial()
		s := c.stall()
		_ = c.say("echo") // it may be closed
		last := c.said[len(c.said)-1]
		time.Sleep(3 * timeout)
		s.end()
		over := time.Now()
		e := c.requireEnd(keepalive.ReasonIdle)
		early := activity != keepalive.ActivityManual && e.at.Sub(last.begun) < timeout
		if early || e.at.Before(last.done) { // the decision came before the line
			c.requireLate()
			return false
		}
		require.Less(r, e.at.Sub(over), timeout+2*tick+late)
		return true
	})
}

// A peer goes while the handler blocks.
func stallHidesAnEnd(r *rig) {
	r.serve(keepalive.Config{Timeout: eternal})
	c := r.dial()
	s := c.stall()
	s.wait()
	require.NoError(r, c.say("hush"))
	require.NoError(r, c.Close())
	time.Sleep(beat)
	s.end()
	c.requireEnd(keepalive.ReasonPeer)
}
