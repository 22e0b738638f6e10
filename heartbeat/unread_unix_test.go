//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package heartbeat

import (
	"bufio"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/socket"
)

// raw is a layer as a connection with a PROXY header is one.
type raw struct{ net.Conn }

func (r raw) Raw() net.Conn { return r.Conn }

// waiting returns what unread does for the socket of a connection, or 0 if it has none.
func waiting(c net.Conn) int {
	raw, _, err := socket.Of(c, nil)
	if err != nil {
		return 0
	}
	return unread(raw)
}

func TestASocketTellsWhatWaitsToBeRead(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	client := dial(t, ln.Addr())
	peer, err := ln.Accept()
	require.NoError(t, err)
	defer peer.Close()
	require.Zero(t, waiting(client))
	_, err = peer.Write([]byte("123"))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return waiting(client) == 3 }, eternal, ms)
	require.Equal(t, 3, waiting(Wrap(raw{client})))
	client.Close()
	require.Zero(t, waiting(client))
}

// Unread answers are excused, but not for ever.
func TestAnswersThatWaitToBeRead(t *testing.T) {
	t.Parallel()
	s := echo(t)
	b := newBeater(t, Config{Tick: 10 * ms})
	ping := Options{Timeout: timeout, Interval: 100 * ms, Message: []byte("PING\n"), Answer: AnswerAck}
	conn := dial(t, s.Addr())
	_, err := conn.Write([]byte("hello\n")) // its answer waits, however slow the server is with the others
	require.NoError(t, err)
	require.Eventually(t, func() bool { return waiting(conn) > 0 }, eternal, ms)
	begin := time.Now()
	slow, err := b.Start(conn, ping)
	require.NoError(t, err)
	<-slow.Done()
	require.ErrorIs(t, slow.Err(), ErrNoAnswer)
	require.GreaterOrEqual(t, time.Since(begin), (1+maxExcuses)*100*ms)
}

// A reading program is excused each time, even if it is always a little late.
func TestAnswersThatAreReadLate(t *testing.T) {
	t.Parallel()
	s := echo(t)
	b := newBeater(t, Config{Tick: 10 * ms})
	c, err := b.Start(dial(t, s.Addr()), Options{Timeout: timeout, Interval: time.Second, Message: []byte("PING\n"), Answer: AnswerAck})
	require.NoError(t, err)
	lines := bufio.NewReader(c)
	for range 2*maxExcuses + 2 {
		time.Sleep(1600 * ms) // AckTimeout is 1s
		_, err := lines.ReadString('\n')
		require.NoError(t, err)
		_, ok := c.Ack()
		require.True(t, ok)
	}
	require.NoError(t, c.Close())
}
