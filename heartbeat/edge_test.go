package heartbeat

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The server's words are an answer, but don't free a hanging beat.
func TestABeatThatHangsEndsThoughTheServerTalks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeater(t, Config{})
		here, there := net.Pipe()
		hang := make(chan struct{})
		c, err := b.Start(here, Options{
			Timeout: 30 * time.Second, Interval: 10 * time.Second, Answer: AnswerRead, AckTimeout: 2 * time.Second,
			Beat: func(net.Conn) error { <-hang; return nil },
		})
		require.NoError(t, err)
		go func() {
			for {
				time.Sleep(tick)
				if _, err := there.Write([]byte("news")); err != nil {
					return
				}
			}
		}()
		go func() {
			for p := make([]byte, 10); ; {
				if _, err := c.Read(p); err != nil {
					return
				}
			}
		}()
		time.Sleep(10*time.Second + 30*time.Second + 5*tick)
		require.ErrorIs(t, c.Err(), ErrNoAnswer)
		close(hang)
		c.Close()
		there.Close()
	})
}

// The second stall comes before anybody has looked at what the first one was.
func TestTwoStallsAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeater(t, Config{})
		c, s := start(t, b, Options{Timeout: 300 * time.Second, Interval: 100 * time.Second}, nil)
		c.Touch()
		time.Sleep(10 * time.Second)
		x := c.beat.Load()
		x.mu.Lock() // due waits
		b.stalled(59 * time.Second)
		b.stalled(29 * time.Second)
		x.mu.Unlock()
		time.Sleep(5 * tick)
		require.Len(t, s.heard("PING"), 1, "the server has not heard anything for 100s")
		c.Close()
	})
}

func TestANilConnIsAnError(t *testing.T) {
	b := newBeater(t, Config{})
	var none *Conn
	_, err := b.Start(none, Options{Timeout: time.Minute, Message: []byte("x")})
	require.ErrorIs(t, err, ErrArgument)
}
