package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/examples/internal/exampletest"
	"github.com/heartwheel-go/heartwheel/internal/certtest"
	"github.com/heartwheel-go/heartwheel/keepalive"
)

func TestMain(m *testing.M) { exampletest.Main(m) }

func start(t *testing.T, above bool) *exampletest.Server {
	certificate, _ := certtest.New(t)
	config := &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	return exampletest.Serve(t, func(ctx context.Context, addr string, timeout time.Duration, logger *slog.Logger) error {
		return serve(ctx, addr, timeout, logger, config, above)
	})
}

func dial(t *testing.T, addr string) *tls.Conn {
	c, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true}) // the certificate is made by the test
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func TestWhoTalksStaysAndWhoIsSilentGoes(t *testing.T) {
	t.Parallel()
	for above, goodbye := range map[bool]string{false: "", true: "BYE idle\n"} {
		t.Run(fmt.Sprintf("above=%v", above), func(t *testing.T) {
			t.Parallel()
			s := start(t, above)
			c := dial(t, s.Addr)
			answers := bufio.NewReader(c)
			last := exampletest.Talk(t, func() error {
				fmt.Fprintln(c, "hello")
				line, err := answers.ReadString('\n')
				require.Equal(t, "hello\n", line)
				return err
			})
			exampletest.Gone(t, last, func() error {
				rest, err := io.ReadAll(answers)
				require.Equal(t, goodbye, string(rest))
				return err
			})
			s.Logs(t, "reason=idle")
		})
	}
}

func TestHandshakesAndRecordsAreNoLife(t *testing.T) {
	t.Parallel()
	for _, above := range []bool{false, true} {
		t.Run(fmt.Sprintf("above=%v", above), func(t *testing.T) {
			t.Parallel()
			s := start(t, above)
			last := time.Now()
			raw, err := net.Dial("tcp", s.Addr) // and no handshake
			require.NoError(t, err)
			defer raw.Close()
			exampletest.Gone(t, last, exampletest.EOF(raw))
			s.Logs(t, "reason=first_message")

			last = time.Now()
			c := dial(t, s.Addr)
			exampletest.Trickle(t, c, "") // bytes, but never a line
			exampletest.Gone(t, last, exampletest.EndOrReset(c))
		})
	}
}

// The comment at the top of main.go must stay true of net/http.
func TestTheWrongWayRoundForHTTP(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		above  bool
		protos []string
		want   string // matches the answer, or the error
	}{
		{above: false, protos: []string{"h2", "http/1.1"}, want: "HTTP/2.0, TLS true"},
		{above: false, want: "HTTP/2.0, TLS true"}, // ServeTLS adds it
		{above: true, want: "HTTP/1.1, TLS false"},
		{above: true, protos: []string{"h2", "http/1.1"}, want: "frame too large|http2: client conn could not be established"}, // HTTP/1.1 to a client with HTTP/2
	} {
		t.Run(fmt.Sprintf("above=%v/protos=%v", test.above, test.protos), func(t *testing.T) {
			t.Parallel()
			var log strings.Builder
			k, err := keepalive.New(keepalive.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			require.NoError(t, err)
			defer k.Close()
			certificate, _ := certtest.New(t)
			config := &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12, NextProtos: test.protos}
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)

			srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprintf(w, "%s, TLS %v", r.Proto, r.TLS != nil)
			})}
			served := make(chan error, 1)
			if test.above {
				go func() { served <- srv.Serve(wrap(ln, k, config, true)) }()
			} else {
				srv.TLSConfig = config
				go func() { served <- srv.ServeTLS(k.Listener(ln), "", "") }()
			}
			transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
			client := &http.Client{Transport: transport, Timeout: exampletest.Late}
			got := ""
			if res, err := client.Get("https://" + ln.Addr().String()); err != nil {
				got = err.Error()
			} else {
				body, err := io.ReadAll(res.Body)
				require.NoError(t, err)
				res.Body.Close()
				got = string(body)
			}
			require.Regexp(t, test.want, got)
			transport.CloseIdleConnections()
			require.NoError(t, srv.Close())
			require.ErrorIs(t, <-served, http.ErrServerClosed)
			require.Equal(t, test.above, strings.Contains(log.String(), "wrap it the other way round"), "the log: %s", log.String())
		})
	}
}

func TestInterruptWhileItStarts(t *testing.T) {
	t.Parallel()
	certificate, _ := certtest.New(t)
	config := &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	exampletest.Interrupt(t, func(ctx context.Context, addr string, timeout time.Duration, logger *slog.Logger) error {
		return serve(ctx, addr, timeout, logger, config, false)
	})
}
