package adaptertest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// client is a connection to the server, and the server's side of it. One goroutine uses it.
type client struct {
	net.Conn
	*peer // nil before dial is done
	r     *rig
	lines *bufio.Reader
	begun time.Time // before it was connected
	said  []said
}

// said is when a line was sent: not earlier than begun, and not later than done.
type said struct {
	line        string
	begun, done time.Time
	answered    time.Time // or zero
}

// connect opens a connection and says nothing.
func (r *rig) connect() *client {
	r.Helper()
	var begun time.Time
	var conn net.Conn
	r.attempt(func() bool {
		var err error
		begun = time.Now()
		conn, err = net.Dial(r.addr.Network(), r.addr.String())
		if errors.Is(err, connReset()) {
			return false // closed before it was open
		}
		require.NoError(r, err)
		return true
	})
	c := &client{Conn: conn, r: r, lines: bufio.NewReader(conn), begun: begun}
	c.wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clients = append(r.clients, c)
	return c
}

// wait begins the time for which the client waits for the server.
func (c *client) wait() { _ = c.SetDeadline(time.Now().Add(eternal)) } // a closed one says so by its next call

func (c *client) overUnix() bool {
	_, unix := c.LocalAddr().(*net.UnixAddr)
	return unix
}

// dial opens a connection and says its name.
func (r *rig) dial() *client {
	r.Helper()
	return r.dialAs(r.newName())
}

// dialAs tries again after an end before the name: then the suite was late. Each attempt has a number, since the handler
// of an earlier one may note its name last.
func (r *rig) dialAs(name string) *client {
	r.Helper()
	var c *client
	numbered, attempts := "", 0
	r.attempt(func() bool {
		begun := time.Now()
		c = r.connect()
		attempts++
		numbered = fmt.Sprint(name, " ", attempts)
		err := c.ask("name " + numbered)
		if err != nil && time.Since(begun) >= timeout/2 {
			return false
		}
		require.NoError(r, err)
		return true
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	c.peer = r.peers[numbered]
	require.NotNil(r, c.peer)
	return c
}

func (r *rig) dialMany(n int) []*client {
	r.Helper()
	clients := make([]*client, n)
	for i := range clients {
		clients[i] = r.dial()
	}
	return clients
}

// say sends a line.
func (c *client) say(line string) error {
	c.wait()
	begun := time.Now()
	_, err := io.WriteString(c.Conn, line+"\n")
	c.said = append(c.said, said{line: line, begun: begun, done: time.Now()})
	return err
}

// hear receives the answer to a line.
func (c *client) hear(i int) error {
	got, err := c.lines.ReadString('\n')
	if err != nil {
		return err
	}
	if line := c.said[i].line; got != line+"\n" { // the farewell
		return fmt.Errorf("the answer to %q is %q", line, got)
	}
	if c.peer != nil && len(c.r.endsOf(c.conn)) > 0 { // a datagram begins another session
		return net.ErrClosed
	}
	c.said[i].answered = time.Now()
	return nil
}

// ask sends a line and receives the answer.
func (c *client) ask(line string) error {
	if err := c.say(line); err != nil {
		return err
	}
	return c.hear(len(c.said) - 1)
}

// asks is ask for a connection with a short timeout. It reports false if the connection is
// gone, because the suite was late.
func (c *client) asks(line string) bool {
	c.r.Helper()
	if c.ask(line) == nil {
		return true
	}
	c.requireLate()
	return false
}

// heard returns the last line with an answer.
func (c *client) heard() said {
	for i := len(c.said) - 1; i >= 0; i-- {
		if !c.said[i].answered.IsZero() {
			return c.said[i]
		}
	}
	return said{}
}

// fresh reports whether the peer was heard not long ago, so the connection can't have been given
// up since then.
func (c *client) fresh() bool { return time.Since(c.heard().begun) < timeout/2 }

// lives has the peer say a line at each beat, for so long. It reports false if the connection
// was closed because the suite was late with a beat.
func (c *client) lives(d time.Duration, line string) bool {
	c.r.Helper()
	for begin := time.Now(); time.Since(begin) < d; time.Sleep(beat) {
		if !c.asks(line) {
			return false
		}
	}
	return true
}

// requireLate requires a silence of the peer, as long as its timeout, before the end of the
// connection.
func (c *client) requireLate() {
	c.r.Helper()
	e := c.requireEnd(keepalive.ReasonIdle)
	var longest time.Duration
	for i, line := range c.said {
		next := e.at
		if i+1 < len(c.said) && c.said[i+1].done.Before(next) {
			next = c.said[i+1].done
		}
		longest = max(longest, next.Sub(line.begun))
	}
	require.GreaterOrEqual(c.r, longest, timeout, "the connection of a living peer was closed")
}

// stall has the handler of the connection block until end is called.
func (c *client) stall() *stall {
	c.r.Helper()
	s := &stall{r: c.r, begun: make(chan struct{}), over: make(chan struct{})}
	c.r.mu.Lock()
	c.r.stalled[c.name] = s
	c.r.mu.Unlock()
	_ = c.say("stall " + c.name) // it may be closed
	return s
}

// wait waits until the handler blocks.
func (s *stall) wait() {
	s.r.Helper()
	select {
	case <-s.begun:
	case <-time.After(eternal):
		s.r.Fatal("the handler does not get the line")
	}
}

// end ends the stall. It may be called more than once.
func (s *stall) end() { s.once.Do(func() { close(s.over) }) }

// requireEnd waits for the end of the connection, and requires its reason.
func (c *client) requireEnd(reason keepalive.Reason) end {
	c.r.Helper()
	c.r.eventually(func() bool { return len(c.r.endsOf(c.conn)) > 0 }, "the connection is still open")
	e := c.r.endsOf(c.conn)[0]
	require.Equal(c.r, reason, e.reason)
	return e
}

// requireExpiry waits for the end of the connection: not less than d after the last answer
// began, and not much more.
func (c *client) requireExpiry(reason keepalive.Reason, d time.Duration) end {
	c.r.Helper()
	e, last := c.requireEnd(reason), c.heard()
	require.GreaterOrEqual(c.r, e.at.Sub(last.begun), d, "the connection was closed early")
	require.Less(c.r, e.at.Sub(last.answered), d+2*tick+late, "the connection was closed late")
	return e
}

// requireBytes requires these bytes, and then nothing but the end.
func (c *client) requireBytes(want string) {
	c.r.Helper()
	got, err := c.rest(len(want))
	require.Equal(c.r, want, got)
	require.NoError(c.r, err, "the end of the stream")
}

// rest receives all bytes until the end of the stream. Datagrams have no end: there it is the
// next datagram, if there is one.
func (c *client) rest(atLeast int) (string, error) {
	c.r.Helper()
	if !c.r.adapter.Datagrams {
		c.wait()
		got, err := io.ReadAll(c.lines)
		return string(got), err
	}
	if atLeast == 0 {
		require.NoError(c.r, c.SetReadDeadline(time.Now().Add(beat)))
	}
	buf := make([]byte, 1<<10)
	n, err := c.lines.Read(buf)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = nil
	}
	return string(buf[:n]), err
}

// requireRefused requires an end without a word.
func (c *client) requireRefused() {
	c.r.Helper()
	got, err := c.rest(0)
	require.Empty(c.r, got)
	if err != nil { // a reset, for what it has not read
		require.ErrorIs(c.r, err, connReset())
	}
}

// connReset returns the error of a read from a connection that was reset. Windows has numbers of its own
// for errors of sockets, and package syscall gives ECONNRESET another one there.
func connReset() error {
	if runtime.GOOS == "windows" {
		const wsaConnReset = syscall.Errno(10054)
		return wsaConnReset
	}
	return syscall.ECONNRESET
}
