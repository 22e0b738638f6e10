package udpkeepalive

import (
	"sync"
	"sync/atomic"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// batch is how many decisions are taken before the next look at the socket: a fraction of
// a millisecond.
const batch = 64

// queue has the sessions that need a decision, and knows when to take it. Its rule: all datagrams that were in
// the socket when a session came due, or later, are handled before the decision.
//
// The socket gives datagrams out in the order of their arrival. So there are two proofs: the socket is
// empty, or as many datagrams have been read as once waited in it. The second one is for a socket
// that is never empty.
//
//	due:  [ proved | watched | new ... ]
//	                ^ behind left more datagrams
type queue struct {
	some atomic.Bool // due is not empty

	mu  sync.Mutex
	due []*keepalive.Guard

	// For the read loop only. 0 <= proved <= watched <= len(due).
	proved, watched int
	left            int // datagrams to be read before the watched ones are proved
	unseen          int // datagrams read since losses were looked at
	losses          losses
}

// add reports whether the queue was empty: the read loop has to be woken.
func (q *queue) add(g *keepalive.Guard) (first bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.due = append(q.due, g)
	return !q.some.Swap(true)
}

// decide is Sessions.Decide. It goes on with another batch only while the socket is empty.
func (q *queue) decide(read int, socket Socket) (waits bool) {
	if q.unseen += read; q.unseen >= batch { // a full socket has more, so a loss is seen before they are all read
		q.unseen = 0
		q.losses.see(socket.Lost())
	}
	for q.some.Load() {
		n := q.len() // before the look at the socket
		waiting := socket.Unread()
		q.prove(n, read, waiting)
		read = 0
		if q.proved > 0 {
			q.losses.see(socket.Lost())
		}
		for range batch {
			g := q.take() // not before: the program may call runtime.Goexit
			if g == nil {
				break
			}
			q.losses.spare(g)
			g.Binding().Decide()
		}
		if waiting > 0 {
			break
		}
	}
	return q.some.Load()
}

// prove looks for a proof for the first n guards. read datagrams have been read, and at most waiting
// ones are unread.
func (q *queue) prove(n, read, waiting int) {
	q.left -= read
	if waiting == 0 {
		q.proved, q.watched = n, n
		return
	}
	if q.left <= 0 {
		q.proved = q.watched
	}
	if q.proved == q.watched && n > q.watched {
		q.watched, q.left = n, waiting
	}
}

func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.due)
}

// take takes a proved guard out of the queue, or returns nil.
func (q *queue) take() (g *keepalive.Guard) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.proved == 0 {
		return nil
	}
	g, q.due = q.due[0], q.due[1:]
	q.proved--
	q.watched--
	if len(q.due) == 0 {
		q.due = nil
		q.some.Store(false)
	}
	return g
}
