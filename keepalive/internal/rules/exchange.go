package rules

import "time"

// LastWord is how long a connection stays after an exchange, and after its program was told of the end: the
// next request may be on its way, and the program may have to say goodbye. net/http takes a second for a GOAWAY.
const LastWord = 1500 * time.Millisecond

// maxArrival is how long a request that has begun to arrive may take to arrive as a whole, and to be read by this program.
const maxArrival = 10 * time.Second

// EndsBetween returns why the connection is to end between two exchanges, or 0.
func (s State) EndsBetween() Reason {
	switch {
	case s.Doom.Why != 0 && s.Doom.End == Between:
		return s.Doom.Why
	case s.Age.Told != 0:
		return MaxAge
	}
	return 0
}

// isRequested reports whether a request of a connection with exchanges is under way, or has begun to arrive, read or
// unread: then the connection is not to be closed between two exchanges. Bytes that may be something else, such as a
// handshake, stand for a request until the last word after them is over. end is when the connection was to be closed.
func (d *decision) isRequested(end Time) bool {
	if d.now < d.e.Exchange || d.e.Exchange == 0 {
		return d.e.Exchange != 0
	}
	k := &d.e.Socket
	recent := k.Received != Unknown && k.Received.Add(LastWord) > d.now
	return (k.Unread > 0 || d.e.Arriving || recent) && d.now < end.Add(maxArrival)
}
