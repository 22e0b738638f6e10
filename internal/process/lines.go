package process

import "bytes"

// Lines is a program's Stdout or Stderr: it is called with each line, without its ending. It is
// not called any more when the program has ended.
type Lines struct {
	Each func(line []byte)

	partial []byte
}

// Write is for the program.
func (l *Lines) Write(p []byte) (int, error) {
	n := len(p)
	for {
		line, rest, whole := bytes.Cut(p, []byte("\n"))
		if !whole {
			l.partial = append(l.partial, line...)
			return n, nil
		}
		l.Each(append(l.partial, line...))
		l.partial, p = l.partial[:0], rest
	}
}
