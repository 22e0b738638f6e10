package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/pires/go-proxyproto"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/examples/internal/exampletest"
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
	require.ErrorContains(t, err, "400 Bad Request")

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
