package timeout

import "time"

// twinEvery is how often a node logs that another one has its name.
const twinEvery = time.Minute

// twin is another running node with this node's name, as the beats of one run find it. The record
// of a predecessor that was killed is found once, by the first beat: that is no twin.
type twin struct {
	keep time.Duration // how long a twin runs after the last beat that found it

	beaten bool
	run    string    // of the twin; empty if there is none
	since  time.Time // when it was first found
	seen   time.Time // when it was last found
	logged time.Time
}

// twinNews is what to log.
type twinNews int

const (
	twinSame twinNews = iota
	twinRuns
	twinGone
)

// met notes the other run of the answer to a beat.
func (t *twin) met(other string, now time.Time) twinNews {
	first := !t.beaten
	t.beaten = true
	switch {
	case other != "" && !first:
		if t.run == "" {
			t.since, t.logged = now, time.Time{}
		}
		t.run, t.seen = other, now
		if now.Sub(t.logged) < twinEvery {
			return twinSame
		}
		t.logged = now
		return twinRuns
	case t.run != "" && now.Sub(t.seen) > t.keep:
		t.run = ""
		return twinGone
	}
	return twinSame
}
