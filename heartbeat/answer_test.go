package heartbeat

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNoAnswerClosesTheConnection(t *testing.T) {
	for _, answer := range []Answer{AnswerRead, AnswerAck} {
		t.Run("answer="+answer.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBeater(t, Config{})
				c, s := start(t, b, Options{Timeout: 30 * time.Second, Answer: answer, AckTimeout: 3 * time.Second}, nil)
				_, err := c.Read(make([]byte, 1))
				sent := s.heard("PING")
				require.Len(t, sent, 1)
				require.GreaterOrEqual(t, time.Since(sent[0]), 3*time.Second)
				require.LessOrEqual(t, time.Since(sent[0]), 3*time.Second+2*tick)

				<-c.Done()
				for _, err := range []error{err, c.Err()} {
					require.ErrorIs(t, err, ErrNoAnswer)
					require.ErrorIs(t, err, os.ErrDeadlineExceeded)
					require.ErrorIs(t, err, net.ErrClosed)
					require.ErrorContains(t, err, "no answer to a beat within 3s")
					var timeout net.Error
					require.ErrorAs(t, err, &timeout)
					require.True(t, timeout.Timeout())
					require.True(t, retryable(err))
				}
				_, err = c.Write([]byte("x"))
				require.ErrorIs(t, err, ErrNoAnswer)
				require.NoError(t, c.Close())
				_, err = s.Write([]byte("x"))
				require.ErrorIs(t, err, io.ErrClosedPipe)
				require.EqualValues(t, 1, b.Stats().Unanswered)
				require.Zero(t, b.Stats().Conns)
				_, ok := c.Ack()
				require.False(t, ok)
			})
		})
	}
}

// A write comes between the decision to send a beat, and the beat.
func TestAWriteDoesNotPutOffTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeater(t, Config{})
		c, _ := start(t, b, Options{Interval: 10 * time.Second, Answer: AnswerAck, AckTimeout: time.Second}, nil)
		c.Touch()
		time.Sleep(5 * time.Second)
		x := c.beat.Load()
		x.mu.Lock()
		c.Touch()
		x.begin(false)
		x.mu.Unlock()
		x.send()
		begin := time.Now()
		<-c.Done()
		require.LessOrEqual(t, time.Since(begin), time.Second+2*tick)
		require.ErrorIs(t, c.Err(), ErrNoAnswer)
	})
}

func TestAnswersInTimeKeepTheConnection(t *testing.T) {
	for _, answer := range []Answer{AnswerRead, AnswerAck} {
		t.Run("answer="+answer.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBeater(t, Config{})
				late := func(line string) string { time.Sleep(2900 * ms); return pong(line) }
				c, s := start(t, b, Options{Timeout: 30 * time.Second, Answer: answer, AckTimeout: 3 * time.Second}, late)
				ended := reader(c)
				time.Sleep(time.Hour)
				require.NoError(t, c.Err())
				require.InDelta(t, 3600/c.Interval().Seconds(), len(s.heard("PING")), 20)
				c.Close()
				require.ErrorIs(t, <-ended, io.ErrClosedPipe)
			})
		})
	}
}

func TestOnlyAckIsAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeater(t, Config{})
		c, s := start(t, b, Options{Timeout: 30 * time.Second, Answer: AnswerAck, AckTimeout: 3 * time.Second},
			func(string) string { return "something else\n" })
		require.ErrorIs(t, <-reader(c), ErrNoAnswer)
		require.Len(t, s.heard("PING"), 1)
	})
}

// Unasked words of the server are life if reading is life, but only if they are read.
func TestReadingIsAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeater(t, Config{})
		c, s := start(t, b, Options{Timeout: 30 * time.Second, Answer: AnswerRead, AckTimeout: 3 * time.Second}, nil)
		ended := reader(c)
		for range 200 {
			_, err := s.Write([]byte("news\n"))
			require.NoError(t, err)
			time.Sleep(2500 * ms)
		}
		require.NoError(t, c.Err())
		require.ErrorIs(t, <-ended, ErrNoAnswer)
	})
}

// A busy writer needs no beats, but has to find out if nobody listens.
func TestAWriterFindsOutThatTheServerHasGone(t *testing.T) {
	for _, answer := range []Answer{AnswerRead, AnswerAck} {
		t.Run("answer="+answer.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBeater(t, Config{})
				begin := time.Now()
				c, s := start(t, b, Options{Timeout: 30 * time.Second, Answer: answer, AckTimeout: 5 * time.Second}, nil)
				err := error(nil)
				for err == nil {
					_, err = c.Write([]byte("data\n"))
					time.Sleep(time.Second)
				}
				require.ErrorIs(t, err, ErrNoAnswer)
				require.GreaterOrEqual(t, time.Since(begin), 35*time.Second)
				require.LessOrEqual(t, time.Since(begin), 37*time.Second)
				require.Len(t, s.heard("PING"), 1)
			})
		})
	}
}

func TestRoundTrip(t *testing.T) {
	for _, answer := range []Answer{AnswerNone, AnswerRead, AnswerAck} {
		t.Run("answer="+answer.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBeater(t, Config{})
				var told atomic.Int64
				var takes atomic.Int64
				takes.Store(int64(300 * ms))
				c, _ := start(t, b, Options{
					Timeout: 30 * time.Second, Answer: answer,
					OnRoundTrip: func(conn net.Conn, d time.Duration) {
						told.Store(int64(d))
						require.Equal(t, d, conn.(*Conn).RoundTrip())
						panic("it harms nobody")
					},
				}, func(line string) string { time.Sleep(time.Duration(takes.Load())); return pong(line) })
				require.Zero(t, c.RoundTrip())
				d, ok := c.Ack()
				require.True(t, ok)
				require.Zero(t, d, "there was no beat")
				reader(c)
				for _, d := range []time.Duration{300 * ms, 50 * ms, 4 * time.Second} {
					takes.Store(int64(d))
					time.Sleep(25 * time.Second)
					require.Equal(t, d, c.RoundTrip())
					require.EqualValues(t, d, told.Load())
				}
				c.Ack()
				d, ok = c.Ack()
				require.True(t, ok)
				require.Zero(t, d, "the last beat has its answer")
				require.NoError(t, c.Err())
				require.NotZero(t, b.Stats().Panics)
				c.Close()
			})
		})
	}
}

// An answer can come before Beat has returned.
func TestTheAnswerOvertakesTheBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeater(t, Config{})
		c, _ := start(t, b, Options{Timeout: 30 * time.Second, Answer: AnswerAck, AckTimeout: time.Second, Beat: func(conn net.Conn) error {
			_, _ = io.WriteString(conn, "PING\n")
			time.Sleep(5 * time.Second) // whatever for
			return nil
		}}, pong)
		reader(c)
		time.Sleep(10 * time.Minute)
		require.NoError(t, c.Err())
		require.Equal(t, time.Duration(1), c.RoundTrip(), "no time passes in a bubble")
		c.Close()
		time.Sleep(5 * time.Second)
	})
}

func TestAckOfWhatHasNoBeats(t *testing.T) {
	here, _ := net.Pipe()
	c := Wrap(here)
	require.Same(t, c, Wrap(c))
	d, ok := c.Ack()
	require.False(t, ok)
	require.Zero(t, d)
	require.Zero(t, c.RoundTrip())
	require.Zero(t, c.Interval())
	require.Zero(t, c.TooMany())
	require.NoError(t, c.Err())
	require.Nil(t, c.Done())
	c.Touch()
	c.Stop()
	_, err := c.SyscallConn()
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.ErrorIs(t, c.CloseRead(), errors.ErrUnsupported)
	require.ErrorIs(t, c.CloseWrite(), errors.ErrUnsupported)
	require.NoError(t, c.SetDeadline(time.Now().Add(-time.Second)))
	_, err = c.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NotErrorIs(t, err, ErrNoAnswer)
	require.Equal(t, here, c.NetConn())
	require.NoError(t, c.Close())
}

// newStalling returns a Beater and a function to make its hand sleep on one of the next ticks, as
// if the process was stopped.
func newStalling(t *testing.T, cfg Config) (*Beater, func(time.Duration)) {
	b := newBeater(t, cfg)
	b.wheel.Stop()
	var sleep atomic.Int64
	require.NoError(t, b.turn(cfg, func(x *beat) time.Duration {
		time.Sleep(time.Duration(sleep.Swap(0)))
		return x.limit()
	}))
	return b, func(d time.Duration) {
		bait, _ := start(t, b, Options{Interval: time.Minute, Beat: func(net.Conn) error { return nil }}, nil)
		bait.beat.Load().timer.Move(1)
		sleep.Store(int64(d))
	}
}

// The server has answered while this process was stopped. The process needs time to read the
// answer.
func TestAStallIsNotCountedAgainstTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, stall := newStalling(t, Config{})
		c, s := start(t, b, Options{Interval: 5 * time.Second, Answer: AnswerAck, AckTimeout: 2 * time.Second}, nil)
		begin := time.Now()
		for len(s.heard("PING")) == 0 {
			time.Sleep(tick)
		}
		stall(time.Minute)
		stalledAt := time.Now()
		time.Sleep(time.Minute + 900*ms)
		require.NoError(t, c.Err(), "the stall and the grace are not counted")
		require.EqualValues(t, 1, b.Stats().Wheel.Stalls)
		require.GreaterOrEqual(t, time.Since(stalledAt), time.Minute)
		_, ok := c.Ack() // what was read meanwhile
		require.True(t, ok)
		require.Less(t, c.RoundTrip(), 3*time.Second, "less the stall")
		require.Less(t, time.Since(begin), 70*time.Second)
		time.Sleep(900 * ms)
		require.NoError(t, c.Err())
		c.Close()
	})
}

// The servers have been counting, so beats are not put off by a stall.
func TestAfterAStallABeatIsDueAtOnce(t *testing.T) {
	for _, tt := range []struct{ idle, stall, until time.Duration }{
		{2 * time.Second, time.Minute, 0},
		{2 * time.Second, 8 * time.Second, 0},
		{2 * time.Second, 3 * time.Second, 5 * time.Second},
		{9 * time.Second, 2 * time.Second, 0},
	} {
		t.Run(tt.idle.String()+"/"+tt.stall.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, stall := newStalling(t, Config{})
				c, s := start(t, b, Options{Timeout: 30 * time.Second, Interval: 10 * time.Second}, nil)
				_, err := c.Write([]byte("hello\n"))
				require.NoError(t, err)
				time.Sleep(tt.idle)
				stall(tt.stall)
				time.Sleep(tt.stall + tt.until + 5*tick)
				beats := s.heard("PING")
				require.Len(t, beats, 1)
				require.GreaterOrEqual(t, beats[0].Sub(s.heard("hello")[0]), min(10*time.Second, tt.idle+tt.stall))
				require.EqualValues(t, 1, b.Stats().Wheel.Stalls)
				time.Sleep(time.Minute)
				for _, gap := range gaps(beats[0], s.heard("PING")[1:]) {
					require.LessOrEqual(t, gap, 10*time.Second+2*tick, "and then as ever")
				}
			})
		})
	}
}

// The wheel runs, and may notice a stall, before New is done.
func TestAStallWhileABeaterIsMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		whole := newBeater(t, Config{})
		b := &Beater{made: make(chan struct{})}
		done := make(chan struct{})
		go func() { b.stalled(time.Second); close(done) }()
		synctest.Wait()
		b.wheel, b.log = whole.wheel, whole.log
		close(b.made)
		<-done
	})
}

// Connections with a recent write need none.
func TestAStallBringsNoMoreBeatsThanNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeater(t, Config{})
		c, s := start(t, b, Options{Timeout: 300 * time.Second, Interval: 100 * time.Second}, nil)
		c.Touch()
		for range 5 {
			b.stalled(2 * time.Second)
			time.Sleep(ms)
		}
		time.Sleep(80 * time.Second)
		require.Empty(t, s.heard("PING"))
		time.Sleep(6 * time.Second)
		require.Len(t, s.heard("PING"), 1, "three seconds earlier for each stall and its grace")
	})
}

// asked is a layer with a function for each question about the connection inside.
type asked struct {
	net.Conn
	ask func()
}

func (a *asked) NetConn() net.Conn { a.ask(); return a.Conn }

// A layer may use the Conn around it when it is asked.
func TestALayerIsAskedWithoutALock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, _ := pipe(t, nil)
		var questions atomic.Int32
		var around atomic.Pointer[Conn]
		c, err := newBeater(t, Config{}).Start(&asked{conn, func() {
			questions.Add(1)
			if x := around.Load().beat.Load(); x.mu.TryLock() {
				x.mu.Unlock()
			} else {
				t.Error("a call of Interval would block for ever")
			}
		}}, Options{Timeout: 30 * time.Second, Message: []byte("PING\n"), Answer: AnswerAck, AckTimeout: time.Second})
		require.NoError(t, err)
		around.Store(c)
		<-c.Done()
		require.ErrorIs(t, c.Err(), ErrNoAnswer)
		require.EqualValues(t, 4, questions.Load(), "before the beat and after it, when the answer is late, and to close the connection")
	})
}
