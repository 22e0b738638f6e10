package fleet

import "time"

// mark is what a node knows of the ends that it has taken in a slot: until when nobody else takes
// them. What a call has taken whose answer was lost is in nobody's hands, so the slot keeps a mark
// as well, and is told which one the node knows.
type mark struct {
	known int64     // the server's time, in ms, or 0
	doubt time.Time // until then, a call without an answer may have taken some
}

// certain is what a slot is told by a node that has had an answer to all calls.
const certain = -1

// say returns what the slot is told. A call without an answer may be run after later ones, too, so
// the node is in doubt for a while.
func (m *mark) say() int64 {
	if time.Now().After(m.doubt) {
		return certain
	}
	return m.known
}

// took notes that a call at the server's time has taken some.
func (m *mark) took(now int64) { m.known = now + delivery.Milliseconds() }

// missed notes that a call has had no answer.
func (m *mark) missed() { m.doubt = time.Now().Add(delivery) }
