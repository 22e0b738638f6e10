// Package logtest is a log for tests to read during its writing.
package logtest

import (
	"bytes"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const eternal = time.Minute // how long a test waits for what must come

// Log is what was logged. The zero value is empty. All methods may be called by several
// goroutines at the same time.
type Log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Logger returns a logger of text, from a level on.
func (l *Log) Logger(level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: level}))
}

// Write is for loggers and processes.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String returns all of it.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Judge looks at the log of a process that has ended. The test fails if the process had a data race: the exit code of a
// killed one does not tell. If the test has failed, Judge shows the log.
func (l *Log) Judge(t testing.TB, args []string) {
	t.Helper()
	if strings.Contains(l.String(), "WARNING: DATA RACE") {
		t.Error("a process has a data race")
	}
	if t.Failed() {
		t.Logf("%q logged:\n%s", args, l)
	}
}

// Lines returns the lines with a text in them.
func (l *Log) Lines(text string) (found []string) {
	for line := range strings.Lines(l.String()) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// Await waits for a pattern in the log, and returns its first group, or nothing if the pattern has
// none.
func (l *Log) Await(t *testing.T, pattern string) (group string) {
	t.Helper()
	re := regexp.MustCompile(pattern)
	require.Eventually(t, func() bool {
		m := re.FindStringSubmatch(l.String())
		if len(m) > 1 {
			group = m[1]
		}
		return m != nil
	}, eternal, time.Millisecond, "%s is not in the log", pattern)
	return group
}
