package fleet

import "time"

// mark is an instant, one for each slot: until then nobody else takes the ends already taken by the
// node. If the answer of a call was lost, nobody has the ends it took. So the slot keeps a mark as
// well, and the node tells the slot its own.
type mark struct {
	known int64     // the server's time, in ms, or 0
	doubt time.Time // until then, a call without an answer may have taken some
}

// certain tells a slot that all calls of the node were answered.
const certain = -1

// say returns the mark to tell the slot. A call without an answer may run after later calls, so
// the node stays in doubt for a while.
func (m *mark) say() int64 {
	if time.Now().After(m.doubt) {
		return certain
	}
	return m.known
}

// took notes a call with ends in its answer, at the server's time now, in ms.
func (m *mark) took(now int64) { m.known = now + delivery.Milliseconds() }

// missed notes a call without an answer.
func (m *mark) missed() { m.doubt = time.Now().Add(delivery) }
