package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/pires/go-proxyproto"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/examples/internal/exampletest"
	"github.com/heartwheel-go/heartwheel/internal/logtest"
	"github.com/heartwheel-go/heartwheel/keepalive"
)

func TestMain(m *testing.M) { exampletest.Main(m) }

var (
	alice = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1111}
	bob   = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 2), Port: 2222}
)

// proxied is a client's connection through a proxy.
type proxied struct {
	net.Conn
	answers *bufio.Reader
}

func dial(t *testing.T, s *exampletest.Server, version byte, client net.Addr) *proxied {
	c, err := net.Dial("tcp", s.Addr)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	if client != nil {
		_, err = proxyproto.HeaderProxyFromAddrs(version, client, c.RemoteAddr()).WriteTo(c)
		require.NoError(t, err)
	}
	return &proxied{c, bufio.NewReader(c)}
}

func (c *proxied) ask() (string, error) {
	if _, err := fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n"); err != nil {
		return "", err
	}
	res, err := http.ReadResponse(c.answers, nil)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if res.StatusCode != http.StatusOK {
		err = errors.Join(err, fmt.Errorf("%s: %s", res.Status, body))
	}
	return string(body), err
}

func TestWhoAsksStaysAndWhoIsSilentGoes(t *testing.T) {
	t.Parallel()
	for _, version := range []byte{1, 2} {
		t.Run(fmt.Sprintf("version=%d", version), func(t *testing.T) {
			t.Parallel()
			s := exampletest.Serve(t, serve)
			c := dial(t, s, version, alice)
			last := exampletest.Talk(t, func() error {
				answer, err := c.ask()
				require.Equal(t, "you are 192.0.2.1:1111\n", answer)
				return err
			})
			exampletest.Gone(t, last, exampletest.EOF(c.answers))
			s.Logs(t, `msg=closed remote=192.0.2.1:1111 reason=idle`)
		})
	}
}

func TestTheClientIsLimitedAndNotTheProxy(t *testing.T) {
	t.Parallel()
	s := exampletest.Serve(t, serve)
	works := func(c *proxied) {
		_, err := c.ask()
		require.NoError(t, err)
	}
	first := dial(t, s, 2, alice)
	works(first)
	works(dial(t, s, 2, alice))
	_, err := dial(t, s, 2, alice).ask()
	require.Error(t, err, "a third connection of the same client")
	s.Logs(t, "remote=192.0.2.1:1111 reason=full")
	works(dial(t, s, 2, bob))
	works(dial(t, s, 1, bob))

	first.Close()
	require.Eventually(t, func() bool {
		_, err := dial(t, s, 2, alice).ask()
		return err == nil
	}, exampletest.Late, exampletest.Beat, "there is room again")
}

func TestWithoutAHeaderNobodyComesIn(t *testing.T) {
	t.Parallel()
	s := exampletest.Serve(t, serve)
	_, err := dial(t, s, 0, nil).ask()
	require.Error(t, err, "not even an answer")

	last := time.Now()
	silent := dial(t, s, 0, nil)
	exampletest.Gone(t, last, exampletest.EOF(silent))
	s.Logs(t, "reason=first_message")
}

func TestOnlyTheProxyIsBelieved(t *testing.T) {
	t.Parallel()
	_, err := trust(proxyproto.ConnPolicyOptions{Upstream: alice})
	require.ErrorIs(t, err, proxyproto.ErrInvalidUpstream)
	policy, err := trust(proxyproto.ConnPolicyOptions{Upstream: &net.TCPAddr{IP: net.IPv6loopback}})
	require.NoError(t, err)
	require.Equal(t, proxyproto.REQUIRE, policy)
}

func TestInterruptWhileItStarts(t *testing.T) {
	t.Parallel()
	exampletest.Interrupt(t, serve)
}

// The Keeper sees the socket through the listener for the header: a busy server closes no living client, and a client
// that takes nothing of a response goes.
func TestTheSocketIsSeenThroughTheHeader(t *testing.T) {
	t.Parallel()
	const timeout = 500 * time.Millisecond
	var warned logtest.Log
	k, err := keepalive.New(keepalive.Config{Timeout: timeout, Logger: warned.Logger(slog.LevelWarn)})
	require.NoError(t, err)
	defer k.Close()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ln := k.Listener(&proxyproto.Listener{Listener: inner})
	defer ln.Close()
	for !hearsAClient(t, ln, timeout) {
		continue // this machine is too busy
	}

	client, conn := accept(t, ln)
	defer client.Close()
	defer keepalive.Of(conn).Hold()() // a response
	for err == nil {
		_, err = conn.Write(make([]byte, 64<<10))
	}
	require.ErrorIs(t, err, keepalive.ErrIdleTimeout)
	require.NotContains(t, warned.String(), "no socket")
}

// accept returns both ends of a connection behind a proxy.
func accept(t *testing.T, ln net.Listener) (client, conn net.Conn) {
	client, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	_, err = proxyproto.HeaderProxyFromAddrs(2, alice, client.RemoteAddr()).WriteTo(client)
	require.NoError(t, err)
	conn, err = ln.Accept()
	require.NoError(t, err)
	require.Equal(t, alice.String(), conn.RemoteAddr().String())
	return client, conn
}

// hearsAClient has a client speak for four timeouts while the server is busy. It reports false if this machine kept the
// client from speaking.
func hearsAClient(t *testing.T, ln net.Listener, timeout time.Duration) (steady bool) {
	client, conn := accept(t, ln)
	defer client.Close()
	begin := time.Now()
	for last := begin; time.Since(begin) < 4*timeout; last = time.Now() {
		_, err := client.Write([]byte("x"))
		time.Sleep(timeout / 10)
		if time.Since(last) > timeout/2 {
			return false
		}
		require.NoError(t, err)
	}
	alive := keepalive.Touch(conn)
	_, err := conn.Read(make([]byte, 1))
	require.NoError(t, err)
	require.True(t, alive)
	return true
}
