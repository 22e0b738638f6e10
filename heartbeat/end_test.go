package heartbeat

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

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

// A long write to a slow peer is life, and no beat can be written behind it.
func TestALongWriteIsNotTheBeatsFault(t *testing.T) {
	for _, answer := range []Answer{AnswerNone, AnswerRead, AnswerAck} {
		t.Run("answer="+answer.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBeater(t, Config{})
				here, there := net.Pipe()
				c, err := b.Start(here, Options{Timeout: 30 * time.Second, Message: []byte("PING\n"), Answer: answer})
				require.NoError(t, err)
				const size = 600
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

// An old write deadline is the user's.
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
