package httpcall

import (
	"bufio"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

var quiet = log.New(io.Discard, "", 0)

// target is a server: it reads the head of each request and then calls answer.
func target(t *testing.T, answer func(conn *net.TCPConn)) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	t.Cleanup(func() { listener.Close(); <-done })
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if req, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				io.Copy(io.Discard, req.Body)
				answer(conn.(*net.TCPConn))
			}
			conn.Close()
		}
	}()
	return "http://" + listener.Addr().String()
}

// flood writes until the other side has had enough.
func flood(conn net.Conn, text string) int {
	conn.SetWriteDeadline(time.Now().Add(20 * time.Second))
	text = strings.Repeat(text, 100)
	sum := 0
	for {
		n, err := io.WriteString(conn, text)
		sum += n
		if err != nil {
			return sum
		}
	}
}

const ok = "HTTP/1.1 200 OK\r\n"

func TestAHostileTargetHoldsNobodyUp(t *testing.T) {
	wait := func(conn *net.TCPConn) { conn.Read(make([]byte, 1)) } // until the caller goes
	for name, test := range map[string]struct {
		answer func(conn *net.TCPConn)
		done   bool
	}{
		"hangs":              {wait, false},
		"closes":             {func(*net.TCPConn) {}, false},
		"half-closes":        {func(c *net.TCPConn) { c.CloseWrite(); wait(c) }, false},
		"resets":             {func(c *net.TCPConn) { c.SetLinger(0) }, false},
		"half a head":        {func(c *net.TCPConn) { io.WriteString(c, "HTTP/1.1 20"); wait(c) }, false},
		"no HTTP":            {func(c *net.TCPConn) { flood(c, "SSH-2.0-hello\r\n") }, false},
		"endless headers":    {func(c *net.TCPConn) { io.WriteString(c, ok); flood(c, "A: b\r\n") }, false},
		"one endless header": {func(c *net.TCPConn) { io.WriteString(c, ok+"A: "); flood(c, "b") }, false},
		"endless 100s":       {func(c *net.TCPConn) { flood(c, "HTTP/1.1 100 Continue\r\nA: b\r\n\r\n") }, false},
		"switches protocols": {func(c *net.TCPConn) {
			io.WriteString(c, "HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
			wait(c)
		}, false},
		"endless body": {func(c *net.TCPConn) { io.WriteString(c, ok+"\r\n"); flood(c, "b") }, true},
		"endless chunks": {func(c *net.TCPConn) {
			io.WriteString(c, ok+"Transfer-Encoding: chunked\r\n\r\n")
			flood(c, "1\r\nb\r\n")
		}, true},
		"a body that hangs":         {func(c *net.TCPConn) { io.WriteString(c, ok+"Content-Length: 9\r\n\r\nb"); wait(c) }, true},
		"a body that ends early":    {func(c *net.TCPConn) { io.WriteString(c, ok+"Content-Length: 9\r\n\r\nb") }, true},
		"a failure with such body":  {func(c *net.TCPConn) { io.WriteString(c, "HTTP/1.1 500 X\r\n\r\n"); flood(c, "b") }, false},
		"a failure that hangs":      {func(c *net.TCPConn) { io.WriteString(c, "HTTP/1.1 500 X\r\n\r\nwhy"); wait(c) }, false},
		"a length that is negative": {func(c *net.TCPConn) { io.WriteString(c, ok+"Content-Length: -1\r\n\r\n") }, false},
		"an endless status":         {func(c *net.TCPConn) { io.WriteString(c, "HTTP/1.1 500 "); flood(c, "b") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limit, most := 3*time.Second, 15*time.Second
			if test.done {
				limit, most = 2*time.Minute, time.Minute // it succeeds, and on a slow machine, too
			}
			c := open(t, Config{Allow: here, Timeout: limit})
			url := target(t, test.answer)
			begin := time.Now()
			err := c.Call(t.Context(), task, to(url))
			require.Less(t, time.Since(begin), most)
			require.Equal(t, test.done, err == nil, "%v", err)
			require.NotErrorIs(t, err, timeout.ErrPermanent, "%v", err)
			if err != nil {
				require.Less(t, len(err.Error()), engine.MaxError)
				require.True(t, strings.HasPrefix(err.Error(), "httpcall: POST "+url+": "), "%v", err)
			}
		})
	}
}

func TestATargetThatSendsWithoutEndIsHungUpOn(t *testing.T) {
	sent := make(chan int, 1)
	url := target(t, func(c *net.TCPConn) { io.WriteString(c, ok+"\r\n"); sent <- flood(c, "b") })
	c := open(t, Config{Allow: here, MaxResponse: 1000})
	require.NoError(t, c.Call(t.Context(), task, to(url)))
	require.Less(t, <-sent, 64<<20, "what was in buffers is gone")
}

func TestTheTextOfAFailureIsWhatCameUntilTheTargetHung(t *testing.T) {
	url := target(t, func(c *net.TCPConn) {
		io.WriteString(c, "HTTP/1.1 500 \x1b[31mX\r\n\r\nwhy\x1b[31m\x00")
		c.Read(make([]byte, 1))
	})
	c := open(t, Config{Allow: here})
	begin := time.Now()
	err := c.Call(t.Context(), task, to(url))
	require.Less(t, time.Since(begin), defaultTimeout/2)
	require.ErrorContains(t, err, `answer 500 Internal Server Error: "why\x1b[31m\x00"`)
}
