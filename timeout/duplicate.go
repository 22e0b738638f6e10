package timeout

import "time"

// duplicateEvery is how often a node logs that another one has its name.
const duplicateEvery = time.Minute

// duplicate is another running node with this node's name, as the heartbeats of one run find it. The record
// of a predecessor that was killed is found once, by the first heartbeat: that is no duplicate.
type duplicate struct {
	keep time.Duration // how long a duplicate runs after the last heartbeat that found it

	sent   bool
	run    string    // of the duplicate; empty if there is none
	since  time.Time // when it was first found
	seen   time.Time // when it was last found
	logged time.Time
}

// duplicateNews is what to log.
type duplicateNews int

const (
	duplicateSame duplicateNews = iota
	duplicateRuns
	duplicateGone
)

// met notes the other run of the answer to a heartbeat.
func (t *duplicate) met(other string, now time.Time) duplicateNews {
	first := !t.sent
	t.sent = true
	switch {
	case other != "" && !first:
		if t.run == "" {
			t.since, t.logged = now, time.Time{}
		}
		t.run, t.seen = other, now
		if now.Sub(t.logged) < duplicateEvery {
			return duplicateSame
		}
		t.logged = now
		return duplicateRuns
	case t.run != "" && now.Sub(t.seen) > t.keep:
		t.run = ""
		return duplicateGone
	}
	return duplicateSame
}
