package udpkeepalive

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

const (
	ms      = time.Millisecond
	eternal = time.Minute
)

// wrap returns a Conn on a socket for IPv4 and IPv6.
func wrap(t *testing.T, cfg keepalive.Config) *Conn[int] {
	k, err := keepalive.New(cfg)
	require.NoError(t, err)
	conn := Wrap[int](listen(t, "[::]:0"), k)
	t.Cleanup(func() {
		require.NoError(t, k.Close())
		_ = conn.Close() // most tests have closed it
	})
	return conn
}

// echo reads until the end, and answers with the count of the session's datagrams.
func echo(conn *Conn[int]) error {
	for buf := make([]byte, 100); ; {
		_, session, err := conn.Read(buf)
		if err != nil {
			return err
		}
		session.Value++
		_, _ = fmt.Fprint(session, session.Value)
	}
}

// run runs readers of a Conn until the test ends.
func run(t *testing.T, conn *Conn[int], readers int) {
	var running sync.WaitGroup
	for range readers {
		running.Go(func() {
			if err := echo(conn); err == nil || !isClosed(err) {
				t.Error(err)
			}
		})
	}
	t.Cleanup(func() {
		require.NoError(t, conn.Close())
		running.Wait()
	})
}

func isClosed(err error) bool {
	_, ok := err.(*net.OpError) //nolint:errorlint // as it is
	return ok
}

func dial(t *testing.T, conn *Conn[int], host string) net.Conn {
	_, port, err := net.SplitHostPort(conn.LocalAddr().String())
	require.NoError(t, err)
	c, err := net.Dial("udp", net.JoinHostPort(host, port))
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(eternal)))
	return c
}

// pathOf returns the path of a client as a server on a wildcard address knows it.
func pathOf(c net.Conn) (path Path) {
	path.Peer = c.LocalAddr().(*net.UDPAddr).AddrPort()
	if runtime.GOOS == "linux" {
		path.Local = c.RemoteAddr().(*net.UDPAddr).AddrPort().Addr()
	}
	return path
}

// ask returns the answer to a datagram.
func ask(t *testing.T, c net.Conn, question string) string {
	t.Helper()
	_, err := io.WriteString(c, question)
	require.NoError(t, err)
	return answer(t, c)
}

func answer(t *testing.T, c net.Conn) string {
	t.Helper()
	buf := make([]byte, 100)
	n, err := c.Read(buf)
	require.NoError(t, err)
	return string(buf[:n])
}

func TestASocketForBothFamiliesKnowsBoth(t *testing.T) {
	t.Parallel()
	conn := wrap(t, keepalive.Config{})
	run(t, conn, 1)
	for _, host := range []string{"127.0.0.1", "::1"} {
		c := dial(t, conn, host)
		require.Equal(t, "1", ask(t, c, "hello"))
		require.Equal(t, "2", ask(t, c, "hello"))
		session := conn.Find(pathOf(c))
		require.NotNil(t, session)
		require.Equal(t, c.LocalAddr().String(), session.Peer().String())
		_, err := session.Write([]byte("by itself"))
		require.NoError(t, err)
		require.Equal(t, "by itself", answer(t, c))
	}
}

// A stranger gets a cookie, and nothing is kept for it.
func TestStrangersWithoutTheCookieGetNoSession(t *testing.T) {
	t.Parallel()
	conn := wrap(t, keepalive.Config{})
	cookie := func(peer netip.AddrPort) string { return "cookie of " + peer.String() }
	conn.Accept = func(datagram []byte, path Path) bool {
		if string(datagram) == cookie(path.Peer) {
			return true
		}
		_, _ = conn.WriteTo([]byte(cookie(path.Peer)), path)
		return false
	}
	run(t, conn, 1)
	c := dial(t, conn, "::1")
	for range 10 {
		got := ask(t, c, "hello")
		require.Equal(t, "cookie of "+c.LocalAddr().String(), got)
		require.Zero(t, conn.sessions.keeper.Len())
	}
	require.Equal(t, "1", ask(t, c, ask(t, c, "hello")))
	require.Equal(t, "2", ask(t, c, "no cookie, but a session"))
}

// Several goroutines read. Each is woken, and none decides behind the back of another one.
func TestSeveralReaders(t *testing.T) {
	t.Parallel()
	const timeout = 300 * ms
	conn := wrap(t, keepalive.Config{Timeout: timeout})
	run(t, conn, 4)
	living, silent := dial(t, conn, "::1"), dial(t, conn, "::1")
	require.Equal(t, "1", ask(t, silent, "hello"))
	last, begun := time.Now(), time.Now()
	for n := 1; conn.Find(pathOf(silent)) != nil || time.Since(begun) < 3*timeout; n++ {
		require.Less(t, time.Since(begun), eternal)
		now := time.Now()
		if got := ask(t, living, "hello"); got != fmt.Sprint(n) { // another session
			require.GreaterOrEqual(t, time.Since(last), timeout, "a living one was lost")
			require.Equal(t, "1", got)
			n = 1
		}
		last = now
	}
}

// Nobody reads, so nobody has heard whether the peer lives. Close ends the session.
func TestNobodyReadsAndNobodyDecides(t *testing.T) {
	t.Parallel()
	ended := make(chan keepalive.Reason, 1)
	conn := wrap(t, keepalive.Config{
		Timeout: 50 * ms, Closing: keepalive.Closing{Timeout: 50 * ms},
		OnClose: func(_ any, r keepalive.Reason) { ended <- r },
	})
	c := dial(t, conn, "::1")
	_, err := c.Write([]byte("hello"))
	require.NoError(t, err)
	_, session, err := conn.Read(make([]byte, 100))
	require.NoError(t, err)
	time.Sleep(500 * ms)
	require.Empty(t, ended)
	_, err = c.Write([]byte("hello"))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return conn.socket.Unread() > 0 }, eternal, ms, "a busy kernel takes its time")
	_, again, err := conn.Read(make([]byte, 100))
	require.NoError(t, err)
	require.Same(t, session, again)

	ctx, cancel := context.WithTimeout(t.Context(), 50*ms)
	defer cancel()
	require.ErrorIs(t, conn.sessions.keeper.Drain(ctx, 0), context.DeadlineExceeded)
	require.Empty(t, ended)
	require.NoError(t, conn.Close())
	require.Equal(t, keepalive.ReasonLocal, <-ended)
	_, _, err = conn.Read(make([]byte, 100))
	require.ErrorIs(t, err, net.ErrClosed)
	require.ErrorIs(t, conn.Close(), net.ErrClosed)
}

// The functions of the Config are called by the reading goroutine: a plain variable is enough.
func TestTheLoopCallsTheFunctionsOfTheConfig(t *testing.T) {
	t.Parallel()
	var a, b net.Conn
	asked, ended := 0, 0
	conn := wrap(t, keepalive.Config{
		Timeout: 50 * ms,
		OnIdle:  func(any, keepalive.Reason) keepalive.Verdict { asked++; return keepalive.Close },
		OnClose: func(any, keepalive.Reason) {
			if ended++; ended == 2 {
				_, _ = b.Write([]byte("hello")) // ends the last Read
			}
		},
	})
	a, b = dial(t, conn, "::1"), dial(t, conn, "::1")
	for _, c := range []net.Conn{a, a, b} {
		_, err := c.Write([]byte("hello"))
		require.NoError(t, err)
	}
	for range 4 {
		_, session, err := conn.Read(make([]byte, 100))
		require.NoError(t, err)
		session.Value++
		require.LessOrEqual(t, ended, asked)
	}
	require.Equal(t, 2, ended)
}

func TestSocketTellsOfItsDatagrams(t *testing.T) {
	l := newLoop(listen(t, "[::1]:0"))
	defer l.Close()
	require.Zero(t, l.Unread())
	c, err := net.Dial("udp", l.LocalAddr().String())
	require.NoError(t, err)
	defer c.Close()
	for n := 1; n <= 3; n++ {
		_, err = c.Write(nil)
		require.NoError(t, err)
		require.Eventually(t, func() bool { return l.Unread() >= n }, eternal, ms, "an empty datagram is one, too")
	}
	for range 3 {
		require.Positive(t, l.Unread())
		_, _, err = l.ReadFromUDPAddrPort(make([]byte, 1))
		require.NoError(t, err)
	}
	require.Zero(t, l.Unread())
	require.Zero(t, l.Lost())
	if runtime.GOOS == "windows" {
		return // it tells no number
	}
	for sent := 0; sent == 0 || sent < l.Unread(); sent++ { // an upper bound: so many have no room
		_, err = c.Write([]byte("x"))
		require.NoError(t, err)
	}
	if runtime.GOOS == "linux" {
		require.Eventually(t, func() bool { // until then more of them may be on their way
			_, err := c.Write([]byte("x"))
			return err == nil && l.Lost() > 0
		}, eternal, ms)
	}
}
