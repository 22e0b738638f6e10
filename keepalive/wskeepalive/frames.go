package wskeepalive

import "encoding/binary"

// frames follows one direction of a WebSocket, and knows where its frames end. It looks at nothing else: the program's
// library checks them. The bytes may begin with a head of HTTP, the request or the response of the handshake.
type frames struct {
	mode   mode
	at     int      // bytes of the head or of a header so far
	blank  int      // bytes of the blank line behind a head so far
	no     bool     // the head is a response other than 101
	first  byte     // of the last frame, or of the head: 'G' or 'H'
	header [10]byte // of a frame, without its mask
	left   uint64   // bytes of a frame behind its header
}

type mode uint8

const (
	inStart mode = iota // a head or a frame follows
	inHead
	inHeader // also between two frames
	inPayload
	inOther // no WebSocket: the server has refused the handshake
)

const (
	blankLine = "\r\n\r\n"
	switching = "101" // in a response, at statusAt
	statusAt  = len("HTTP/1.1 ")
)

// The first byte of a head can't begin a frame: a control frame is not fragmented, and opcode 7 is reserved.
const (
	request  = 'G' // as in GET
	response = 'H' // as in HTTP
)

// Bits of a frame's header, RFC 6455, section 5.2.
const (
	bitFin     = 0x80
	bitControl = 0x08
	bitMask    = 0x80
	opcodes    = 0x0f
)

// between reports whether a frame may begin here.
func (f *frames) between() bool { return f.mode == inHeader && f.at == 0 }

// take takes bytes up to the end of a frame or of a head, or all of them. It reports whether one has ended; f.first
// says which.
func (f *frames) take(p []byte) (n int, ended bool) {
	for n < len(p) && !ended {
		switch f.mode {
		case inStart:
			if f.mode = inHeader; p[n] == request || p[n] == response {
				f.mode, f.first = inHead, p[n]
			}
		case inHead:
			ended = f.takeHead(p[n])
			n++
		case inHeader:
			ended = f.takeHeader(p[n])
			n++
		case inPayload:
			k := min(f.left, uint64(len(p)-n))
			f.left -= k
			n += int(k)
			if ended = f.left == 0; ended {
				f.mode = inHeader
			}
		default:
			return len(p), false
		}
	}
	return n, ended
}

func (f *frames) takeHead(b byte) (ended bool) {
	if i := f.at - statusAt; f.first == response && i >= 0 && i < len(switching) && b != switching[i] {
		f.no = true
	}
	f.at++
	switch b {
	case blankLine[f.blank]:
		f.blank++
	case '\r':
		f.blank = 1
	default:
		f.blank = 0
	}
	if f.blank < len(blankLine) {
		return false
	}
	f.at = 0
	if f.mode = inHeader; f.no {
		f.mode = inOther
	}
	return !f.no
}

func (f *frames) takeHeader(b byte) (ended bool) {
	f.header[f.at] = b
	if f.at++; f.at < 2 {
		return false
	}
	length := uint64(f.header[1] &^ bitMask)
	switch {
	case length == 126 && f.at == 4:
		length = uint64(binary.BigEndian.Uint16(f.header[2:]))
	case length == 127 && f.at == 10:
		length = binary.BigEndian.Uint64(f.header[2:]) &^ (1 << 63) // which must be 0
	case length > 125:
		return false
	}
	if f.header[1]&bitMask != 0 {
		length += 4
	}
	f.first, f.at, f.left = f.header[0], 0, length
	if length > 0 {
		f.mode = inPayload
	}
	return length == 0
}
