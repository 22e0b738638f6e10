package heartbeat

import (
	"context"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

var pings = Options{Timeout: 30 * time.Second, Message: []byte("PING\n")}

// runs calls Run on another goroutine.
func runs(ctx context.Context, run func(context.Context, net.Conn, Options) error, conn net.Conn, opts Options) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, conn, opts) }()
	return ended
}

func TestRunEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, s := pipe(t, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begin := time.Now()
		require.ErrorIs(t, <-runs(ctx, Run, conn, pings), context.DeadlineExceeded)
		require.Equal(t, time.Minute, time.Since(begin))
		beats := len(s.heard("PING"))
		require.GreaterOrEqual(t, beats, 5)

		_, err := conn.Write([]byte("it is still open\n"))
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.Len(t, s.heard("it is still open"), 1)
		require.Len(t, s.heard("PING"), beats)
		require.Nil(t, shared.beater)
	})
}

func TestRunWithAContextThatIsDone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	here, _ := net.Pipe()
	require.ErrorIs(t, Run(ctx, here, pings), context.Canceled)
	require.Nil(t, shared.beater)
}

func TestRunSeesWhatAWrappedConnectionDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, s := pipe(t, pong)
		c := Wrap(conn)
		opts := pings
		opts.Answer = AnswerRead
		running := runs(t.Context(), Run, c, opts)
		synctest.Wait()
		ended := reader(c)
		for range 100 {
			_, err := c.Write([]byte("hello\n"))
			require.NoError(t, err)
			time.Sleep(5 * time.Second)
		}
		require.Empty(t, s.heard("PING"))
		time.Sleep(time.Minute)
		require.NotEmpty(t, s.heard("PING"))
		require.NotZero(t, c.RoundTrip())
		require.NoError(t, c.Err())
		c.Close()
		require.ErrorIs(t, <-running, net.ErrClosed)
		require.Error(t, <-ended)
	})
}

func TestRunReturnsWhyABeatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, s := pipe(t, nil)
		s.Close()
		require.ErrorIs(t, Run(t.Context(), conn, pings), io.ErrClosedPipe)
	})
}

func TestRunFailsAsStartDoes(t *testing.T) {
	require.ErrorIs(t, Run(t.Context(), nil, pings), ErrArgument)
	b := newBeater(t, Config{})
	require.NoError(t, b.Close())
	here, _ := net.Pipe()
	require.ErrorIs(t, b.Run(t.Context(), here, pings), ErrClosed)
}

// After Run has returned, nothing is being written, so the user can say goodbye.
func TestRunWaitsForTheBeatThatIsBeingWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeater(t, Config{})
		here, there := net.Pipe()
		ctx, cancel := context.WithCancel(t.Context())
		running := runs(ctx, b.Run, here, pings)
		time.Sleep(11 * time.Second) // it blocks
		cancel()
		synctest.Wait()
		require.Empty(t, running)
		_, err := io.ReadFull(there, make([]byte, 5))
		require.NoError(t, err)
		require.ErrorIs(t, <-running, context.Canceled)
		go here.Write([]byte("BYE"))
		_, err = io.ReadFull(there, make([]byte, 3))
		require.NoError(t, err)
	})
}

func TestRunDoesNotWaitForEver(t *testing.T) {
	for name, beat := range map[string]func(conn net.Conn) error{
		"write": func(conn net.Conn) error { _, err := conn.Write([]byte("PING\n")); return err },
		"sleep": func(net.Conn) error { time.Sleep(time.Hour); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBeater(t, Config{})
				here, there := net.Pipe()
				defer there.Close()
				ctx, cancel := context.WithCancel(t.Context())
				running := runs(ctx, b.Run, here, Options{Timeout: 30 * time.Second, Beat: beat})
				time.Sleep(11 * time.Second) // it blocks
				cancel()
				begin := time.Now()
				require.ErrorIs(t, <-running, context.Canceled)
				require.LessOrEqual(t, time.Since(begin), 30*time.Second)
				_, err := here.Read(make([]byte, 1))
				require.ErrorIs(t, err, io.ErrClosedPipe)
				time.Sleep(time.Hour)
			})
		})
	}
}

// The shared Beater is there as long as there are connections.
func TestStartSharesABeater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := runtime.NumGoroutine()
		for range 3 {
			var conns []*Conn
			for range 100 {
				c, err := Start(new(sink), pings)
				require.NoError(t, err)
				conns = append(conns, c)
			}
			require.Equal(t, 100, shared.conns)
			require.Equal(t, 100, shared.beater.Stats().Conns)
			require.LessOrEqual(t, runtime.NumGoroutine(), before+1)
			time.Sleep(time.Minute)
			_, err := Start(conns[0], pings)
			require.ErrorIs(t, err, ErrArgument)
			for _, c := range conns {
				c.Close()
				c.Close()
			}
			require.Nil(t, shared.beater)
			require.Zero(t, shared.conns)
			synctest.Wait()
			for try := 0; runtime.NumGoroutine() > before && try < 1e6; try++ {
				runtime.Gosched() // an ended one may be counted for a moment
			}
			require.LessOrEqual(t, runtime.NumGoroutine(), before)
		}
	})
}

// Everything at the same time, for the race detector.
func TestManyGoroutines(t *testing.T) {
	b := newBeater(t, Config{Tick: ms})
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			for range 20 {
				opts := Options{Timeout: 30 * ms, Message: []byte("PING\n"), Answer: Answer(i % 3)}
				conn, _ := pipe(t, pong)
				c := Wrap(conn)
				ctx, cancel := context.WithTimeout(context.Background(), 20*ms)
				var one sync.WaitGroup
				one.Go(func() { _ = b.Run(ctx, c, opts) })
				one.Go(func() { <-reader(c) })
				one.Go(func() {
					for range 10 {
						_, _ = c.Write([]byte("x\n"))
						c.Ack()
						c.TooMany()
						c.Interval()
						b.Stats()
						b.stalled(ms)
						c.Touch()
						time.Sleep(ms)
					}
					if i%2 == 0 {
						c.Stop()
					}
					c.Close()
				})
				one.Wait()
				cancel()
			}
		})
	}
	all.Wait()
	require.Zero(t, b.Stats().Conns)
	require.Zero(t, b.Stats().Panics)
}
