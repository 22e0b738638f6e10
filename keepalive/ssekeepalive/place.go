package ssekeepalive

// place is where the bytes written to a stream end.
type place struct {
	in placeKind
	cr bool // after a CR: a LF belongs to the same end of a line
}

type placeKind uint8

const (
	betweenEvents placeKind = iota // at the start, or after a blank line
	betweenLines                   // of an event
	withinLine
)

// isBetweenEvents reports whether no event is under way.
func (p *place) isBetweenEvents() bool { return p.in == betweenEvents }

// pass moves the place behind written bytes. Of these it reads the ends of lines at the end.
func (p *place) pass(written []byte) {
	ends := len(written)
	for ends > 0 && (written[ends-1] == '\n' || written[ends-1] == '\r') {
		ends--
	}
	if ends > 0 {
		*p = place{in: withinLine}
	}
	for _, b := range written[ends:] {
		switch {
		case b == '\n' && p.cr: // CR LF is one end
		case p.in == withinLine:
			p.in = betweenLines
		default:
			p.in = betweenEvents
		}
		p.cr = b == '\r'
	}
}
