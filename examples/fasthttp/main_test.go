package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/heartwheel-go/heartwheel/examples/internal/exampletest"
)

// fasthttp has one goroutine for good, for the Date header.
func TestMain(m *testing.M) {
	exampletest.Main(m, goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"))
}

// client is net/http's.
type client struct {
	*http.Client
	base string
}

func newClient(t *testing.T, s *exampletest.Server) *client {
	transport := new(http.Transport)
	t.Cleanup(transport.CloseIdleConnections)
	return &client{&http.Client{Transport: transport, Timeout: exampletest.Late}, "http://" + s.Addr}
}

func (c *client) get(t *testing.T, path string) (status int, body string, reused bool) {
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused }}
	r, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodGet, c.base+path, nil)
	require.NoError(t, err)
	res, err := c.Do(r)
	require.NoError(t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(b), reused
}

func TestWhoAsksStaysAndWhoIsSilentGoes(t *testing.T) {
	t.Parallel()
	s := exampletest.Serve(t, serve)
	c := newClient(t, s)
	c.get(t, "/")
	exampletest.Talk(t, func() error {
		_, body, reused := c.get(t, "/")
		require.Equal(t, "hello\n", body)
		require.True(t, reused, "the connection was closed")
		return nil
	})
	s.Logs(t, "reason=idle")
	_, _, reused := c.get(t, "/")
	require.False(t, reused)
}

func TestWhoNeverSpeaksGoes(t *testing.T) {
	t.Parallel()
	s := exampletest.Serve(t, serve)
	last := time.Now()
	c, err := net.Dial("tcp", s.Addr)
	require.NoError(t, err)
	defer c.Close()
	exampletest.Gone(t, last, exampletest.EndOrReset(c))
	s.Logs(t, "reason=idle")
}

func TestARequestMayTakeLongerThanTheTimeout(t *testing.T) {
	t.Parallel()
	c := newClient(t, exampletest.Serve(t, serve))
	d := 3 * exampletest.Timeout
	status, body, _ := c.get(t, "/slow?for="+d.String())
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, fmt.Sprintf("done after %v\n", d), body)
	_, _, reused := c.get(t, "/")
	require.True(t, reused, "the silence begins when the request ends")
}

// The handler has returned long before the second event.
func TestAStreamOfEventsMayBeSilent(t *testing.T) {
	t.Parallel()
	s := exampletest.Serve(t, serve)
	res, err := newClient(t, s).Get("http://" + s.Addr + "/events?every=" + (3 * exampletest.Timeout).String())
	require.NoError(t, err)
	defer res.Body.Close()
	for in, n := bufio.NewScanner(res.Body), 1; n <= 2; {
		require.True(t, in.Scan(), "the stream has ended: %v", in.Err())
		if in.Text() == fmt.Sprintf("data: %d", n) {
			n++
		}
	}
}

func TestAHijackedConnectionLivesAsLongAsItTalks(t *testing.T) {
	t.Parallel()
	s := exampletest.Serve(t, serve)
	conn, err := net.Dial("tcp", s.Addr)
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "GET /lines HTTP/1.1\r\nHost: a\r\n\r\n")
	require.NoError(t, err)
	answers := bufio.NewReader(conn)
	res, err := http.ReadResponse(answers, nil)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, res.Body)
	require.NoError(t, err)
	last := exampletest.Talk(t, func() error {
		_, err := io.WriteString(conn, "are you there?\n")
		require.NoError(t, err)
		line, err := answers.ReadString('\n')
		require.Equal(t, "are you there?\n", line)
		return err
	})
	exampletest.Gone(t, last, exampletest.EOF(answers))
	s.Logs(t, "reason=idle")
}

func TestADownloadLivesAsLongAsItIsTaken(t *testing.T) {
	t.Parallel()
	s := exampletest.Serve(t, serve)
	conn, err := net.Dial("tcp", s.Addr)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(64<<10))
	_, err = io.WriteString(conn, "GET /download HTTP/1.1\r\nHost: a\r\n\r\n")
	require.NoError(t, err)
	some := make([]byte, 64<<10)
	last := exampletest.Talk(t, func() error {
		_, err := io.ReadFull(conn, some)
		return err
	})
	s.Logs(t, "reason=idle") // nobody reads any more
	require.GreaterOrEqual(t, time.Since(last), exampletest.Timeout)
}

func TestNonsenseIsRefused(t *testing.T) {
	t.Parallel()
	c := newClient(t, exampletest.Serve(t, serve))
	for _, path := range []string{"/slow?for=never", "/slow?for=-1s", "/events?every=2h"} {
		status, body, _ := c.get(t, path)
		require.Equal(t, http.StatusBadRequest, status)
		require.Contains(t, body, "must be a duration of up to 1h")
	}
}

func TestAShutdownWaitsForUploadsAndNotForNewcomers(t *testing.T) {
	t.Parallel()
	exampletest.Shutdown(t, "/", serve)
}

func TestInterruptWhileItStarts(t *testing.T) {
	t.Parallel()
	exampletest.Interrupt(t, serve)
}
