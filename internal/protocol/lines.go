// Package protocol is the protocol of package server: lines and their answers. That package describes
// it.
package protocol

import "bytes"

// Lines cuts a stream of bytes into lines, however it arrives.
type Lines struct {
	partial []byte // the beginning of a line before its end
}

// Partial reports whether the beginning of a line waits for its end.
func (l *Lines) Partial() bool { return len(l.partial) > 0 }

// maxKept is the largest buffer kept by a connection for its next line.
const maxKept = 1 << 10

// Next takes the first line off buf. A line comes without its ending, \n or \r\n; Next returns that,
// too. Both are valid until the next call. If no line is complete, line is nil, rest is empty, and
// Next keeps the beginning. tooLong says that the line is longer than limit, with or without its end.
func (l *Lines) Next(buf []byte, limit int) (line, ending, rest []byte, tooLong bool) {
	end := bytes.IndexByte(buf, '\n')
	whole := end >= 0
	if whole {
		line, rest = buf[:end+1], buf[end+1:]
	} else {
		line = buf
	}
	// One more byte for a \r before its \n. A line too long anyway is not copied.
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

// cutEnding returns a line without its ending, and the ending. A \r at the end of a part of a line may
// yet become part of the ending.
func cutEnding(line []byte, whole bool) (text, ending []byte) {
	text = line
	if whole {
		text = text[:len(text)-1]
	}
	text = bytes.TrimSuffix(text, []byte("\r"))
	return text, line[len(text):]
}
