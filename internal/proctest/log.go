package proctest

import (
	"bytes"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Log is a log that is read while it is written. The zero value is empty.
type Log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write is for the process.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String returns all that has been written.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Await waits until something is in the log, and returns its first group, or nothing where
// the pattern has none.
func (l *Log) Await(t *testing.T, pattern string) (group string) {
	t.Helper()
	re := regexp.MustCompile(pattern)
	require.Eventually(t, func() bool {
		m := re.FindStringSubmatch(l.String())
		if len(m) > 1 {
			group = m[1]
		}
		return m != nil
	}, Eternal, time.Millisecond, "%s is not in the log", pattern)
	return group
}
