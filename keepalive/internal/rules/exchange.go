package rules

import "time"

// maxUnread is how long a request may wait in the socket until this program reads it.
const maxUnread = 10 * time.Second

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

// requested reports whether the next request of a connection with exchanges has come, and this program is slow to read
// it: then the connection is not to be closed between two exchanges. The socket is not asked before an instant.
func (d *decision) requested(end Time) (out Outcome, wanted, yes bool) {
	if d.e.Exchange == 0 {
		return Outcome{}, false, false
	}
	if out, wanted := d.look(end); wanted {
		return out, true, false
	}
	return Outcome{}, false, d.socket.Unread > 0 && d.now < end.Add(maxUnread)
}
