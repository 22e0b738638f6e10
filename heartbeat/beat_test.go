package heartbeat

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
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

// peer is the other end of a pipe: it notes when which line came, and answers what
// answer says, if that is not nil.
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

// pipe returns the client's end of a pipe, and a peer that reads the other end.
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

// reader reads lines until the end, and tells acks of those that begin with PONG.
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

func TestBeatsComeWithinAThirdOfTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeater(t, Config{})
		begin := time.Now()
		c, s := start(t, b, Options{Timeout: 30 * time.Second}, nil)
		require.GreaterOrEqual(t, c.Interval(), 7500*ms)
		require.LessOrEqual(t, c.Interval(), 10*time.Second)
		time.Sleep(10 * time.Minute)
		all := gaps(begin, s.heard("PING"))
		require.GreaterOrEqual(t, len(all), 58)
		require.LessOrEqual(t, all[0], c.Interval()+2*tick)
		for _, gap := range all[1:] {
			require.GreaterOrEqual(t, gap, c.Interval(), "it is the same each time")
			require.LessOrEqual(t, gap, c.Interval()+2*tick)
		}
		require.EqualValues(t, len(all), b.Stats().Beats)
		require.NoError(t, c.Err())
	})
}

func TestAnIntervalThatWasGivenIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeater(t, Config{Tick: 10 * ms})
		begin := time.Now()
		_, s := start(t, b, Options{Interval: 4 * time.Second}, nil)
		time.Sleep(time.Minute)
		all := gaps(begin, s.heard("PING"))
		require.GreaterOrEqual(t, len(all), 14)
		for _, gap := range all[1:] {
			require.GreaterOrEqual(t, gap, 4*time.Second)
			require.LessOrEqual(t, gap, 4020*ms)
		}
	})
}

func TestFirstBeatsAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeater(t, Config{})
		const conns, interval = 2000, 20 * time.Second
		var mu sync.Mutex
		var first [10]int
		begin := time.Now()
		for range conns {
			once := false
			start(t, b, Options{Interval: interval, Beat: func(net.Conn) error {
				if !once { // never called twice at the same time
					mu.Lock()
					first[min(9, int(time.Since(begin)*10/interval))]++
					mu.Unlock()
				}
				once = true
				return nil
			}}, nil)
		}
		time.Sleep(interval + 2*tick)
		mu.Lock()
		defer mu.Unlock()
		sum := 0
		for tenth, n := range first {
			require.InDelta(t, conns/10, n, 0.35*conns/10, "tenth %d of the interval", tenth)
			sum += n
		}
		require.Equal(t, conns, sum)
	})
}

// Clients that all write at the same moment don't beat together after it.
func TestBeatsAreSpreadAfterTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeater(t, Config{})
		var mu sync.Mutex
		perTick := make(map[time.Duration]int)
		begin := time.Now()
		for range 1000 {
			c, _ := start(t, b, Options{Timeout: 60 * time.Second, Beat: func(net.Conn) error {
				mu.Lock()
				perTick[time.Since(begin)/tick]++
				mu.Unlock()
				return nil
			}}, nil)
			_, err := c.Write([]byte("LOGIN\n"))
			require.NoError(t, err)
		}
		time.Sleep(21 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		require.Greater(t, len(perTick), 40, "the quarter is 50 ticks")
		for _, n := range perTick {
			require.Less(t, n, 60)
		}
	})
}

func TestWritesMakeBeatsUnnecessary(t *testing.T) {
	for _, answer := range []Answer{AnswerNone, AnswerRead, AnswerAck} {
		t.Run("answer="+answer.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBeater(t, Config{})
				c, s := start(t, b, Options{Timeout: 30 * time.Second, Answer: answer}, pong)
				ended := reader(c)
				for range 1000 {
					_, err := c.Write([]byte("PONG please\n")) // which the server sends back
					require.NoError(t, err)
					time.Sleep(5 * time.Second)
				}
				require.Empty(t, s.heard("PING"))

				time.Sleep(c.Interval() - 5*time.Second + 2*tick)
				require.Len(t, s.heard("PING"), 1)
				c.Close()
				require.Error(t, <-ended)
			})
		})
	}
}

func TestTouchMakesABeatUnnecessary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeater(t, Config{})
		c, s := start(t, b, Options{Timeout: 30 * time.Second}, nil)
		for range 100 {
			c.Touch()
			time.Sleep(5 * time.Second)
		}
		require.Empty(t, s.heard("PING"))
	})
}

func TestTooManyDoublesTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeater(t, Config{})
		c, s := start(t, b, Options{Timeout: time.Minute, Interval: 10 * time.Second}, nil)
		time.Sleep(time.Minute)
		for _, seconds := range []int{20, 40, 45, 45} {
			want := time.Duration(seconds) * time.Second
			require.Equal(t, want, c.TooMany())
			require.Equal(t, want, c.Interval())
			before, begin := len(s.heard("PING")), time.Now()
			time.Sleep(10 * time.Minute)
			for _, gap := range gaps(begin, s.heard("PING")[before:]) {
				require.GreaterOrEqual(t, gap, want)
				require.LessOrEqual(t, gap, want+2*tick, "the server closes after a minute")
			}
		}

		// The next connection goes on with it.
		next, _ := start(t, b, Options{Timeout: time.Minute, Interval: c.Interval()}, nil)
		require.Equal(t, 45*time.Second, next.Interval())
	})
}

func TestABeatThatFailsClosesTheConnection(t *testing.T) {
	oh := errors.New("oh")
	for name, beat := range map[string]func(net.Conn) error{
		"error":   func(net.Conn) error { return oh },
		"panic":   func(net.Conn) error { panic("oh") },
		"goexit":  func(net.Conn) error { runtime.Goexit(); return nil },
		"partial": func(c net.Conn) error { _, _ = c.Write([]byte("PI")); return io.ErrShortWrite },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBeater(t, Config{})
				bad, _ := start(t, b, Options{Timeout: 30 * time.Second, Beat: beat}, nil)
				good, s := start(t, b, Options{Timeout: 30 * time.Second}, nil)
				_, err := bad.Read(make([]byte, 1))
				require.Error(t, err)
				require.ErrorContains(t, err, "sending a beat")
				<-bad.Done()
				require.ErrorContains(t, bad.Err(), "sending a beat")
				if name == "error" {
					require.ErrorIs(t, err, oh)
				}
				_, err = bad.Write([]byte("x"))
				require.ErrorContains(t, err, "sending a beat")
				require.NoError(t, bad.Close(), "it is closed already")

				time.Sleep(time.Minute)
				require.NoError(t, good.Err())
				require.NotEmpty(t, s.heard("PING"))
				require.EqualValues(t, 1, b.Stats().Failed)
				require.Equal(t, 1, b.Stats().Conns)
				if name == "panic" {
					require.EqualValues(t, 1, b.Stats().Panics)
				}
			})
		})
	}
}

// Peers that never read: beats block, and harm nobody else.
func TestBlockedBeatsHoldUpNobody(t *testing.T) {
	for _, answer := range []Answer{AnswerNone, AnswerRead, AnswerAck} {
		t.Run("answer="+answer.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBeater(t, Config{})
				begin := time.Now()
				good, s := start(t, b, Options{Timeout: 30 * time.Second}, nil)
				blocked := make([]*Conn, 500)
				for i := range blocked {
					here, there := net.Pipe()
					defer there.Close()
					var err error
					blocked[i], err = b.Start(here, Options{Interval: 10 * time.Second, Message: []byte("PING\n"), Answer: answer})
					require.NoError(t, err)
				}
				longest := 10*time.Second + 30*time.Second // until the beat, and Timeout
				if answer != AnswerNone {
					longest = 20 * time.Second // and AckTimeout
				}
				for _, c := range blocked {
					_, err := c.Read(make([]byte, 1))
					require.ErrorIs(t, err, ErrNoAnswer)
					require.ErrorContains(t, err, "could not be written within")
				}
				require.LessOrEqual(t, time.Since(begin), longest+10*tick)
				require.EqualValues(t, len(blocked), b.Stats().Unanswered)

				time.Sleep(10 * time.Second)
				require.NoError(t, good.Err())
				for i, gap := range gaps(begin, s.heard("PING")) {
					require.LessOrEqual(t, gap, 10*time.Second+10*tick, "beat %d", i)
				}
				require.Equal(t, 1, b.Stats().Conns)
			})
		})
	}
}

// A write of the user's that a slow peer takes its time with is life, and no beat can
// be written behind it.
func TestALongWriteIsNotTheBeatsFault(t *testing.T) {
	for _, answer := range []Answer{AnswerNone, AnswerRead, AnswerAck} {
		t.Run("answer="+answer.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBeater(t, Config{})
				here, there := net.Pipe()
				c, err := b.Start(here, Options{Timeout: 30 * time.Second, Message: []byte("PING\n"), Answer: answer})
				require.NoError(t, err)
				const size = 3000
				go func() { // a byte per second, and then the beat
					buf := make([]byte, 1)
					for n := 0; ; n++ {
						if n < size {
							time.Sleep(time.Second)
						}
						if _, err := there.Read(buf); err != nil {
							return
						}
					}
				}()
				_, err = c.Write(make([]byte, size))
				require.NoError(t, err)
				require.Zero(t, b.Stats().Beats)
				time.Sleep(11 * time.Second)
				require.NotZero(t, b.Stats().Beats)
				c.Close()
				there.Close()
			})
		})
	}
}

func TestCloseWhileABeatIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeater(t, Config{})
		here, there := net.Pipe()
		defer there.Close()
		c, err := b.Start(here, Options{Timeout: 30 * time.Second, Message: []byte("PING\n")})
		require.NoError(t, err)
		time.Sleep(11 * time.Second) // it blocks
		require.NoError(t, c.Close())
		<-c.Done()
		require.ErrorIs(t, c.Err(), net.ErrClosed)
		require.NotErrorIs(t, c.Err(), ErrNoAnswer)
		_, err = c.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.ErrClosedPipe, "it is the user who closed it")
		synctest.Wait()
		require.Zero(t, b.Stats().Conns)
		require.Zero(t, b.Stats().Unanswered+b.Stats().Failed)
		_ = c.Close()
		c.Stop()
	})
}

func TestCloseOfTheBeaterLeavesConnectionsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeater(t, Config{})
		c, s := start(t, b, Options{Timeout: 30 * time.Second}, nil)
		here, there := net.Pipe()
		blocked, err := b.Start(here, Options{Timeout: 30 * time.Second, Message: []byte("PING\n")})
		require.NoError(t, err)
		time.Sleep(11 * time.Second)
		require.NoError(t, b.Close())
		require.NoError(t, b.Close())
		<-c.Done()
		<-blocked.Done()
		require.ErrorIs(t, c.Err(), ErrClosed)
		beats := len(s.heard("PING"))
		time.Sleep(time.Hour)
		_, err = c.Write([]byte("hello\n"))
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.Len(t, s.heard("hello"), 1)
		require.Len(t, s.heard("PING"), beats)
		_, err = b.Start(c, Options{Timeout: 30 * time.Second, Message: []byte("PING\n")})
		require.ErrorIs(t, err, ErrClosed)

		read := make(chan string)
		go func() {
			buf := make([]byte, 10)
			n, _ := io.ReadFull(there, buf[:5])
			read <- string(buf[:n])
		}()
		require.Equal(t, "PING\n", <-read, "it was being written")
		blocked.Close()
	})
}

func TestAFunctionMayCloseAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeater(t, Config{})
		c, _ := start(t, b, Options{Timeout: 30 * time.Second, Beat: func(conn net.Conn) error {
			conn.(*Conn).TooMany()
			conn.(*Conn).Ack()
			conn.Close()
			return b.Close()
		}}, nil)
		<-c.Done()
		require.ErrorIs(t, c.Err(), net.ErrClosed)
		time.Sleep(time.Minute)
	})
}

func TestStopAndStartAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeater(t, Config{})
		c, s := start(t, b, Options{Timeout: 30 * time.Second}, nil)
		_, err := b.Start(c, Options{Timeout: 30 * time.Second, Message: []byte("PING\n")})
		require.ErrorIs(t, err, ErrArgument)
		require.ErrorContains(t, err, "begun already")
		c.Stop()
		c.Stop()
		<-c.Done()
		require.ErrorIs(t, c.Err(), ErrStopped)
		beats := len(s.heard("PING"))
		time.Sleep(time.Minute)
		require.Len(t, s.heard("PING"), beats)
		require.Zero(t, b.Stats().Conns)

		again, err := b.Start(c, Options{Timeout: 30 * time.Second, Message: []byte("PING\n")})
		require.NoError(t, err)
		require.Same(t, c, again)
		time.Sleep(time.Minute)
		require.Greater(t, len(s.heard("PING")), beats)
		require.NoError(t, c.Err())
	})
}

func TestAConnectionThatIsClosedAlready(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeater(t, Config{})
		here, _ := net.Pipe()
		here.Close()
		c, err := b.Start(here, Options{Timeout: 30 * time.Second, Message: []byte("PING\n")})
		require.NoError(t, err)
		<-c.Done()
		require.ErrorIs(t, c.Err(), io.ErrClosedPipe)
	})
}

// A deadline that was left behind from an earlier write is the user's.
func TestAStaleWriteDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeater(t, Config{})
		c, _ := start(t, b, Options{Timeout: 30 * time.Second}, nil)
		require.NoError(t, c.SetWriteDeadline(time.Now().Add(time.Second)))
		_, err := c.Write([]byte("x\n"))
		require.NoError(t, err)
		<-c.Done()
		require.ErrorIs(t, c.Err(), os.ErrDeadlineExceeded)
		require.NotErrorIs(t, c.Err(), ErrNoAnswer)
	})
}

// sink is a connection that takes everything.
type sink struct {
	net.Conn
	writes atomic.Int64
}

func (s *sink) Write(p []byte) (int, error) { s.writes.Add(1); return len(p), nil }
func (s *sink) Read(p []byte) (int, error)  { return len(p), nil }
func (s *sink) Close() error                { return nil }

func TestTenThousandConnectionsNeedNoGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeater(t, Config{})
		before := runtime.NumGoroutine()
		most := 0
		conns := make([]*sink, 10_000)
		for i := range conns {
			conns[i] = new(sink)
			c, err := b.Start(conns[i], Options{Interval: 10 * time.Second, Message: []byte("PING\n")})
			require.NoError(t, err)
			defer c.Close()
		}
		for range 600 {
			time.Sleep(tick)
			most = max(most, runtime.NumGoroutine()-before)
		}
		require.LessOrEqual(t, most, 70, "the wheel's workers")
		synctest.Wait()
		for i, s := range conns {
			require.InDelta(t, 6, s.writes.Load(), 1, "connection %d", i)
		}
		require.Equal(t, len(conns), b.Stats().Conns)
	})
}

func TestImpossibleArguments(t *testing.T) {
	here, _ := net.Pipe()
	defer here.Close()
	ping := []byte("PING\n")
	b := newBeater(t, Config{})
	for _, tt := range []struct {
		opts Options
		want string
	}{
		{Options{Timeout: time.Minute}, "neither Message nor Beat"},
		{Options{Timeout: time.Minute, Message: ping, Beat: func(net.Conn) error { return nil }}, `Message "PING\n" and Beat, must be one of them`},
		{Options{Message: ping}, "Timeout 0s (Interval 0s), must be at least 10 ticks of 100ms"},
		{Options{Message: ping, Timeout: -1}, "Timeout -1ns, must be 0 to 87600h0m0s"},
		{Options{Message: ping, Timeout: 1 << 62}, "must be 0 to 87600h0m0s"},
		{Options{Message: ping, Interval: -1}, "Interval -1ns, must be 0 to"},
		{Options{Message: ping, Interval: 1 << 62}, "Interval 1281023h53m38.427387904s, must be 0 to"},
		{Options{Message: ping, Timeout: 999 * ms}, "Timeout 999ms (Interval 0s), must be at least 10 ticks of 100ms"},
		{Options{Message: ping, Interval: 50 * ms}, "Timeout 150ms (Interval 50ms), must be at least 10 ticks of 100ms"},
		{Options{Message: ping, Timeout: time.Second, Interval: 99 * ms}, "Interval 99ms, must be at least a tick, 100ms, and at most three quarters of Timeout 1s"},
		{Options{Message: ping, Timeout: time.Second, Interval: 751 * ms}, "Interval 751ms, must be at least a tick, 100ms, and at most three quarters of Timeout 1s"},
		{Options{Message: ping, Timeout: time.Minute, AckTimeout: time.Second}, "AckTimeout 1s with Answer none"},
		{Options{Message: ping, Timeout: time.Minute, Answer: AnswerAck, AckTimeout: -1}, "AckTimeout -1ns, must be 0 to"},
		{Options{Message: ping, Timeout: time.Minute, Answer: AnswerAck, AckTimeout: 99 * ms}, "AckTimeout 99ms, must be at least a tick, 100ms, and at most Interval 20s"},
		{Options{Message: ping, Timeout: time.Minute, Answer: AnswerAck, AckTimeout: 21 * time.Second}, "AckTimeout 21s, must be at least a tick, 100ms, and at most Interval 20s"},
		{Options{Message: ping, Timeout: time.Minute, Answer: 3}, "Answer 3, must be 0 to 2"},
		{Options{Message: ping, Timeout: time.Minute, Answer: -1}, "Answer -1, must be 0 to 2"},
	} {
		_, err := b.Start(here, tt.opts)
		require.ErrorIs(t, err, ErrArgument)
		require.ErrorContains(t, err, tt.want)
		_, err = Start(here, tt.opts)
		require.ErrorContains(t, err, tt.want)
	}
	require.Nil(t, shared.beater)
	_, err := b.Start(nil, Options{Timeout: time.Minute, Message: ping})
	require.ErrorContains(t, err, "conn is nil")
	_, err = b.Start(Wrap(nil), Options{Timeout: time.Minute, Message: ping})
	require.ErrorContains(t, err, "conn is nil")
	for want, cfg := range map[string]Config{
		"Tick 999µs, must be at least 1ms":     {Tick: 999 * time.Microsecond},
		"Tick 1h0m0.001s, must be at most 1h":  {Tick: time.Hour + ms},
		"Stall 150ms, must be at least two ti": {Stall: 150 * ms},
	} {
		_, err := New(cfg)
		require.ErrorIs(t, err, ErrArgument)
		require.ErrorContains(t, err, want)
	}
}

func TestMessageIsCopied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeater(t, Config{})
		message := []byte("PING\n")
		_, s := start(t, b, Options{Timeout: 30 * time.Second, Message: message}, nil)
		copy(message, "XXXX")
		time.Sleep(time.Minute)
		require.NotEmpty(t, s.heard("PING"))
		require.Empty(t, s.heard("XXXX"))
	})
}

func TestStrings(t *testing.T) {
	require.Equal(t, "none read ack Answer(3) Answer(-1)", fmt.Sprint(AnswerNone, AnswerRead, AnswerAck, Answer(3), Answer(-1)))
}
