package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// rules are what the server was told, and its faults are judged by.
type rules struct {
	timeout, longest     time.Duration // the shortest and the longest timeout in force
	first                time.Duration // until the first line
	maxAge, evictMinIdle time.Duration
}

func newRules(timeout time.Duration) rules {
	return rules{timeout: timeout, longest: timeout * 3 / 2, first: timeout / 2, maxAge: 20 * timeout, evictMinIdle: timeout * 7 / 10}
}

// patience is how long after its last sign of life a dead client waits for its end. The server's pauses come on top.
func (r rules) patience() time.Duration { return r.longest + 30*time.Second }

// ending is how a connection ended, as its client saw it.
type ending struct {
	kind   *kind
	dialed time.Time     // before the connection was opened
	said   time.Time     // after its first line was sent; zero without one
	life   time.Time     // before its last sign of life was sent; dialed without one
	at     time.Time     // after the end was seen
	late   time.Duration // by how much this program was late shortly before, at most; 0 if not notable
	text   string        // the server's last line; "" without one
	leaves bool          // the server was going down by then, or is gone
}

// verdict is whether an end was right.
type verdict int

// The verdicts.
const (
	right   verdict = iota
	early           // closed before its time
	wrong           // closed for no reason that it gave
	ownLate         // this program was too slow to keep it alive: nobody's fault
)

// judge returns the verdict about an end by the server, and why. It never blames the server for a delay on this
// side: all times of the client are those that are best for the server.
func (r rules) judge(e ending) (verdict, string) {
	silent, age := e.at.Sub(e.life), e.at.Sub(e.dialed)
	switch text := e.text; {
	case strings.Contains(text, "server shutting down"):
		if !e.leaves {
			return wrong, "the server was not going down"
		}
	case strings.HasPrefix(text, "BYE maximum age"):
		if age < r.maxAge*9/10 {
			return early, fmt.Sprintf("%v old", age)
		}
	case strings.HasPrefix(text, "BYE first message"):
		if age < r.first {
			return early, fmt.Sprintf("after %v", age)
		}
		if !e.said.IsZero() && e.said.Sub(e.dialed) < r.first {
			return wrong, "it has said something in time"
		}
		if !e.said.IsZero() || e.kind.first {
			return ownLate, ""
		}
	case strings.HasPrefix(text, "BYE closed to make room"):
		if silent < r.evictMinIdle {
			return e.tooSoon(silent)
		}
	case strings.HasPrefix(text, "ERR too many connections"): // refused as it came
	case strings.HasPrefix(text, "BYE idle"), strings.HasPrefix(text, "BYE no answer"):
		if silent < r.timeout {
			return e.tooSoon(silent)
		}
		if e.kind.lives {
			return ownLate, ""
		}
	case strings.HasPrefix(text, tooMany), strings.HasPrefix(text, tooSlow):
		if !slices.ContainsFunc(e.kind.why, func(why string) bool { return why != noWord && strings.HasPrefix(text, why) }) {
			return wrong, "it has broken no such rule"
		}
	case text == "" && (e.leaves || slices.Contains(e.kind.why, noWord)):
	case text == "" && !e.kind.lives:
		if silent < r.evictMinIdle {
			return early, fmt.Sprintf("without a word, silent for %v", silent)
		}
	default:
		return wrong, ""
	}
	return right, ""
}

// tooSoon returns the verdict about an end after too short a silence. If this program was late, a client reads a
// ping and the goodbye after it at the same time, and its answer to the ping comes after both. Or its line comes
// late, and crosses the goodbye.
func (e ending) tooSoon(silent time.Duration) (verdict, string) {
	if e.kind.goesOn() && e.late > 0 {
		return ownLate, ""
	}
	return early, fmt.Sprintf("silent for %v", silent)
}
