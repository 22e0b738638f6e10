package heartbeat

import (
	"bufio"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	ms   = time.Millisecond
	tick = 100 * ms
)

func newBeater(t testing.TB, cfg Config) *Beater {
	b, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

// peer is the other end of a pipe: it notes each line and its time, and answers by answer, if not
// nil.
type peer struct {
	net.Conn
	answer func(line string) string

	mu    sync.Mutex
	lines []string
	at    []time.Time
}

func (s *peer) run() {
	for lines := bufio.NewScanner(s.Conn); lines.Scan(); {
		s.mu.Lock()
		s.lines, s.at = append(s.lines, lines.Text()), append(s.at, time.Now())
		s.mu.Unlock()
		if s.answer != nil {
			if _, err := io.WriteString(s.Conn, s.answer(lines.Text())); err != nil {
				return
			}
		}
	}
}

// heard returns when a line came, each time.
func (s *peer) heard(line string) (at []time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, l := range s.lines {
		if l == line {
			at = append(at, s.at[i])
		}
	}
	return at
}

func pong(line string) string { return strings.Replace(line, "PING", "PONG", 1) + "\n" }

// pipe returns the client's end of a pipe, and a peer reading the other end.
func pipe(t testing.TB, answer func(line string) string) (net.Conn, *peer) {
	a, b := net.Pipe()
	s := &peer{Conn: b, answer: answer}
	ended := make(chan struct{})
	go func() { s.run(); close(ended) }()
	t.Cleanup(func() { a.Close(); b.Close(); <-ended })
	return a, s
}

// start begins beats on a pipe.
func start(t testing.TB, b *Beater, opts Options, answer func(line string) string) (*Conn, *peer) {
	conn, s := pipe(t, answer)
	if opts.Message == nil && opts.Beat == nil {
		opts.Message = []byte("PING\n")
	}
	c, err := b.Start(conn, opts)
	require.NoError(t, err)
	return c, s
}

// reader reads lines until the end, and tells acks of each PONG.
func reader(c *Conn) (end <-chan error) {
	ended := make(chan error, 1)
	go func() {
		in := bufio.NewReader(c)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				ended <- err
				return
			}
			if strings.HasPrefix(line, "PONG") {
				c.Ack()
			}
		}
	}()
	return ended
}

func gaps(begin time.Time, at []time.Time) (gaps []time.Duration) {
	for _, t := range at {
		gaps = append(gaps, t.Sub(begin))
		begin = t
	}
	return gaps
}

// sink is a connection without limits.
type sink struct {
	net.Conn
	writes atomic.Int64
}

func (s *sink) Write(p []byte) (int, error) { s.writes.Add(1); return len(p), nil }
func (s *sink) Read(p []byte) (int, error)  { return len(p), nil }
func (s *sink) Close() error                { return nil }
