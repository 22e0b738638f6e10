package protocol

import "bytes"

var (
	ping = []byte("PING")
	beat = []byte("BEAT")
	quit = []byte("QUIT")
)

// Answer appends the answer to a line, with the line's ending. last says whether it is the last
// answer.
func Answer(out, line, ending []byte) (_ []byte, last bool) {
	switch {
	case bytes.Equal(line, quit):
		out, last = append(out, "BYE"...), true
	case isVerb(line, beat):
		return out, false
	case isVerb(line, ping):
		out = append(append(out, "PONG"...), line[len(ping):]...)
	default:
		out = append(out, line...)
	}
	return append(out, ending...), last
}

// isVerb reports whether a line is a verb, with or without something after it.
func isVerb(line, verb []byte) bool {
	rest, ok := bytes.CutPrefix(line, verb)
	return ok && (len(rest) == 0 || rest[0] == ' ')
}
