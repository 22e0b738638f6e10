package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/examples/internal/exampletest"
	"github.com/heartwheel-go/heartwheel/internal/certtest"
)

func TestMain(m *testing.M) { exampletest.Main(m) }

func start(t *testing.T, overTLS bool) *exampletest.Server {
	var config *tls.Config
	if overTLS {
		certificate, _ := certtest.New(t)
		config = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	}
	return exampletest.Serve(t, func(ctx context.Context, addr string, timeout time.Duration, logger *slog.Logger) error {
		return serve(ctx, addr, timeout, logger, config)
	})
}

// client is net/http's. It says for each request whether its connection was there already.
type client struct {
	http.Client
	base string
}

func newClient(t *testing.T, base string) *client {
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // the certificate is made by the test
		ForceAttemptHTTP2: true,
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &client{Client: http.Client{Transport: transport, Timeout: exampletest.Late}, base: base}
}

func (c *client) get(path string) (body string, reused bool, err error) {
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused }}
	r, err := http.NewRequestWithContext(httptrace.WithClientTrace(context.Background(), trace), http.MethodGet, c.base+path, nil)
	if err != nil {
		return "", false, err
	}
	res, err := c.Do(r)
	if err != nil {
		return "", reused, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if res.StatusCode != http.StatusOK {
		err = errors.Join(err, fmt.Errorf("%s: %s", res.Status, b))
	}
	return string(b), reused, err
}

func TestWhoAsksNowAndThenKeepsTheConnection(t *testing.T) {
	t.Parallel()
	for overTLS, want := range map[bool]string{false: "hello over HTTP/1.1\n", true: "hello over HTTP/2.0\n"} {
		t.Run(fmt.Sprintf("tls=%v", overTLS), func(t *testing.T) {
			t.Parallel()
			c := newClient(t, base(start(t, overTLS), overTLS))
			_, _, err := c.get("/")
			require.NoError(t, err)
			exampletest.Talk(t, func() error {
				body, reused, err := c.get("/")
				require.True(t, reused || err != nil, "the connection was closed")
				require.Equal(t, want, body)
				return err
			})

			time.Sleep(2*exampletest.Timeout + exampletest.Beat)
			_, reused, err := c.get("/")
			require.NoError(t, err, "a client has to see that its idle connection is gone")
			require.False(t, reused)
		})
	}
}

func TestARequestMayTakeLongerThanTheTimeout(t *testing.T) {
	t.Parallel()
	for _, overTLS := range []bool{false, true} {
		t.Run(fmt.Sprintf("tls=%v", overTLS), func(t *testing.T) {
			t.Parallel()
			c := newClient(t, base(start(t, overTLS), overTLS))
			d := 3 * exampletest.Timeout
			body, _, err := c.get("/slow?for=" + d.String())
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintf("done after %v\n", d), body)

			_, reused, err := c.get("/")
			require.NoError(t, err)
			require.True(t, reused, "the silence begins when the request ends")
		})
	}
}

func TestWhoSendsSlowlyStays(t *testing.T) {
	t.Parallel()
	c := newClient(t, "http://"+start(t, false).Addr)
	r, w := io.Pipe()
	sent := make(chan error, 1)
	go func() {
		_, err := io.WriteString(w, "for=0s&rest=")
		for end := time.Now().Add(3 * exampletest.Timeout); err == nil && time.Now().Before(end); time.Sleep(exampletest.Beat) {
			_, err = io.WriteString(w, "x")
		}
		sent <- errors.Join(err, w.Close())
	}()
	res, err := c.Post(c.base+"/slow", "application/x-www-form-urlencoded", r)
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.NoError(t, <-sent)
}

// The handler waits for the rest of the request. Until then it must not hold the connection.
func TestWhoStopsInTheMiddleOfARequestGoes(t *testing.T) {
	t.Parallel()
	conn, err := net.Dial("tcp", start(t, false).Addr)
	require.NoError(t, err)
	defer conn.Close()
	last := time.Now()
	_, err = io.WriteString(conn, "POST /slow HTTP/1.1\r\nHost: a\r\n"+
		"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 100000\r\n\r\nfor=0s&rest=")
	require.NoError(t, err)
	exampletest.Gone(t, last, exampletest.EndOrReset(conn))
}

func TestAHijackedConnectionLivesAsLongAsItTalks(t *testing.T) {
	t.Parallel()
	s := start(t, false)
	r, err := http.NewRequest(http.MethodGet, base(s, false)+"/lines", nil)
	require.NoError(t, err)
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "lines")
	res, err := (&http.Client{Transport: new(http.Transport)}).Do(r)
	require.NoError(t, err)
	require.Equal(t, http.StatusSwitchingProtocols, res.StatusCode)
	conn := res.Body.(io.ReadWriteCloser)
	defer conn.Close()

	answers := bufio.NewReader(conn)
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

func TestWhatCannotBeDoneIsSaid(t *testing.T) {
	t.Parallel()
	c := newClient(t, base(start(t, true), true))
	_, _, err := c.get("/slow?for=never")
	require.ErrorContains(t, err, `for="never": must be a duration of up to 1h`)
	_, _, err = c.get("/lines") // over HTTP/2
	require.ErrorContains(t, err, "505 HTTP Version Not Supported")
}

func base(s *exampletest.Server, overTLS bool) string {
	if overTLS {
		return "https://" + s.Addr
	}
	return "http://" + s.Addr
}

func TestAShutdownWaitsForUploadsAndNotForNewcomers(t *testing.T) {
	t.Parallel()
	exampletest.Shutdown(t, "/slow", func(ctx context.Context, addr string, timeout time.Duration, logger *slog.Logger) error {
		return serve(ctx, addr, timeout, logger, nil)
	})
}

func TestInterruptWhileItStarts(t *testing.T) {
	t.Parallel()
	exampletest.Interrupt(t, func(ctx context.Context, addr string, timeout time.Duration, logger *slog.Logger) error {
		return serve(ctx, addr, timeout, logger, nil)
	})
}
