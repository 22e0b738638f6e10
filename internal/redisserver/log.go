package redisserver

import (
	"bytes"
	"strings"
	"sync"
)

// lastLines is how many lines of its log a server is remembered by.
const lastLines = 3

// log is what a server writes.
type log struct {
	ready chan struct{} // closed when it has said so

	mu      sync.Mutex
	isReady bool
	lines   []string
}

// line takes in a line.
func (l *log) line(raw []byte) {
	line := string(bytes.TrimSpace(raw))
	if line == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
	if len(l.lines) > lastLines {
		l.lines = l.lines[1:]
	}
	if !l.isReady && strings.Contains(line, ready) {
		l.isReady = true
		close(l.ready)
	}
}

// last returns its last words.
func (l *log) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) == 0 {
		return "it said nothing"
	}
	return strings.Join(l.lines, "; ")
}
