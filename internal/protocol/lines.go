// Package protocol is the protocol of package server, where it is described:
// lines, and what is answered to them.
package protocol

import "bytes"

// Lines cuts a stream of bytes into lines, however it arrives.
type Lines struct {
	partial []byte // the beginning of a line whose end has not come
}

// Partial reports whether the beginning of a line waits for its end.
func (l *Lines) Partial() bool { return len(l.partial) > 0 }

// maxKept is the largest buffer that a connection keeps for its next line.
const maxKept = 1 << 10

// Next takes the first line off buf. A line comes without its ending, \n or \r\n,
// which is returned too; both are valid until the next call. Where no line is
// complete, line is nil, rest is empty, and what there is of it is kept. tooLong
// says that the line is longer than limit, whether or not its end is there.
func (l *Lines) Next(buf []byte, limit int) (line, ending, rest []byte, tooLong bool) {
	end := bytes.IndexByte(buf, '\n')
	whole := end >= 0
	if whole {
		line, rest = buf[:end+1], buf[end+1:]
	} else {
		line = buf
	}
	// One more byte for a \r whose \n has not come. What is too long anyway is
	// not copied.
	if len(l.partial)+len(line)-len("\r\n") > limit {
		return nil, nil, nil, true
	}
	if len(l.partial) > 0 || !whole {
		l.partial = append(l.partial, line...)
		line = l.partial
	}
	line, ending = cutEnding(line, whole)
	if len(line) > limit {
		return nil, nil, nil, true
	}
	if !whole {
		return nil, nil, nil, false
	}
	if cap(l.partial) <= maxKept {
		l.partial = l.partial[:0]
	} else {
		l.partial = nil
	}
	return line, ending, rest, false
}

// cutEnding returns a line without its ending, and the ending. A \r at the end of
// a line that is not whole may yet become part of it.
func cutEnding(line []byte, whole bool) (text, ending []byte) {
	text = line
	if whole {
		text = text[:len(text)-1]
	}
	text = bytes.TrimSuffix(text, []byte("\r"))
	return text, line[len(text):]
}
