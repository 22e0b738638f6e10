// Package wstest tests package wskeepalive with the real libraries, plain and over TLS.
package wstest

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	coder "github.com/coder/websocket"
	gorilla "github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/examples/internal/exampletest"
	"github.com/heartwheel-go/heartwheel/internal/certtest"
	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/httpkeepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/wskeepalive"
)

const timeout = exampletest.Timeout

func TestMain(m *testing.M) { exampletest.Main(m) }

// variants are the servers under test.
var variants = []variant{
	{"gorilla", false, false, keepalive.ActivityRead},
	{"gorilla", false, true, keepalive.ActivityReadWrite},
	{"coder", false, false, keepalive.ActivityManual},
	{"coder", false, true, keepalive.ActivityRead},
	{"coder", true, true, keepalive.ActivityRead},
	{"gobwas", true, false, keepalive.ActivityReadWrite},
	{"gobwas", true, true, keepalive.ActivityRead},
	{"gws", true, true, keepalive.ActivityManual},
	{"melody", true, false, keepalive.ActivityRead},
}

type variant struct {
	library  string
	hijack   bool // wskeepalive.Hijacker, and no function for the library
	overTLS  bool
	activity keepalive.Activity // of other connections: none matters for a WebSocket
}

// eachLibrary returns a variant for each library, without TLS.
func eachLibrary() (one []variant) {
	for _, v := range variants {
		if !slices.ContainsFunc(one, func(other variant) bool { return other.library == v.library }) {
			v.overTLS = false
			one = append(one, v)
		}
	}
	return one
}

// each runs a test with each variant at the same time.
func each(t *testing.T, test func(t *testing.T, v variant)) {
	t.Parallel()
	for _, v := range variants {
		t.Run(fmt.Sprintf("library=%s/hijack=%v/tls=%v", v.library, v.hijack, v.overTLS), func(t *testing.T) {
			t.Parallel()
			test(t, v)
		})
	}
}

// end is the end of a WebSocket.
type end struct {
	name   string
	reason keepalive.Reason
}

// server serves WebSockets, pages and events on one port.
type server struct {
	variant
	keeper *keepalive.Keeper
	addr   string
	told   chan end   // what OnClose was told of WebSockets
	errs   chan error // how the handlers ended
}

func start(t *testing.T, v variant, handle func(s socket, g *keepalive.Guard) error) *server {
	s := &server{variant: v, told: make(chan end, 10), errs: make(chan error, 10)}
	var err error
	s.keeper, err = keepalive.New(keepalive.Config{
		Timeout:  timeout,
		Activity: v.activity,
		Closing:  keepalive.Closing{Mode: keepalive.CloseHalf},
		OnClose: func(conn any, reason keepalive.Reason) {
			if name, ok := keepalive.Of(conn).Value().(string); ok {
				s.told <- end{name, reason}
			}
		},
	})
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Proto) })
	mux.HandleFunc("/events", func(w http.ResponseWriter, r *http.Request) {
		select { // silent for long
		case <-time.After(2 * timeout):
			fmt.Fprint(w, "data: at last\n\n")
		case <-r.Context().Done():
		}
	})
	var handlers sync.WaitGroup
	mux.HandleFunc("/ws", func(w http.ResponseWriter, r *http.Request) {
		handlers.Add(1)
		defer handlers.Done()
		ws, done := v.upgrade(t, w, r)
		if ws == nil {
			return
		}
		defer done()
		guard := httpkeepalive.Guard(r)
		guard.SetValue(r.FormValue("name"))
		s.errs <- handle(ws, guard)
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.addr = ln.Addr().String()
	certificate, _ := certtest.New(t)
	srv := &http.Server{
		Handler: mux, ReadHeaderTimeout: exampletest.Late, ErrorLog: log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
	}
	httpkeepalive.Wrap(srv, s.keeper)
	served := make(chan error, 1)
	if ln = s.keeper.Listener(ln); v.overTLS {
		go func() { served <- srv.ServeTLS(ln, "", "") }()
	} else {
		go func() { served <- srv.Serve(ln) }()
	}
	t.Cleanup(func() {
		require.NoError(t, srv.Close())
		require.ErrorIs(t, <-served, http.ErrServerClosed)
		ctx, cancel := context.WithTimeout(context.Background(), exampletest.Late)
		defer cancel()
		require.NoError(t, s.keeper.Drain(ctx, 0))
		handlers.Wait()
		require.NoError(t, s.keeper.Close())
	})
	return s
}

// echo is a handler. A whole message is life.
func echo(s socket, g *keepalive.Guard) error {
	for {
		message, err := s.read()
		if err != nil {
			return err
		}
		g.Touch()
		if err := s.write(message); err != nil {
			return err
		}
	}
}

func (s *server) url(scheme, path string) string {
	if s.overTLS {
		scheme += "s"
	}
	return scheme + "://" + s.addr + path
}

// insecure is for the certificate that the test has made.
func insecure() *tls.Config { return &tls.Config{InsecureSkipVerify: true} }

// dial connects with gorilla's client.
func (s *server) dial(t *testing.T) *gorilla.Conn {
	c, _, err := (&gorilla.Dialer{TLSClientConfig: insecure()}).Dial(s.url("ws", "/ws?name=alice"), nil)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// requireGoodbye reads until the close frame.
func requireGoodbye(code int, text string, c *gorilla.Conn) func() error {
	return func() error {
		for {
			_, _, err := c.ReadMessage()
			if gorilla.IsCloseError(err, code) && strings.Contains(err.Error(), text) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("no close frame: %w", err)
			}
		}
	}
}

// requireEnd requires OnClose to be told once, and the handler to end for the same reason.
func (s *server) requireEnd(t *testing.T, reason keepalive.Reason) {
	select {
	case got := <-s.told:
		require.Equal(t, end{"alice", reason}, got)
	case <-time.After(exampletest.Late):
		require.FailNow(t, "OnClose is not told")
	}
	err := <-s.errs
	require.ErrorIs(t, err, net.ErrClosed)
	if s.library != "coder" { // which may say no more than that
		require.ErrorIs(t, err, reason)
	}
	require.Empty(t, s.told)
}

func TestPongsKeepASocket(t *testing.T) {
	each(t, func(t *testing.T, v variant) {
		s := start(t, v, echo)
		s.probeOften(t)
		ctx := t.Context()
		answers := make(chan string, 2)
		// One client after the other, and each reads from its beginning to its end: reading answers pings.
		keeps := func(write func(text string) error, read func() (string, error)) {
			require.NoError(t, write("hello"))
			got, err := read()
			require.NoError(t, err)
			require.Equal(t, "hello", got)
			go func() {
				got, _ := read()
				answers <- got
			}()
		}
		c, _, err := coder.Dial(ctx, s.url("ws", "/ws?name=bob"), &coder.DialOptions{HTTPClient: &http.Client{Transport: &http.Transport{TLSClientConfig: insecure()}}})
		require.NoError(t, err)
		defer c.CloseNow()
		keeps(
			func(text string) error { return c.Write(ctx, coder.MessageText, []byte(text)) },
			func() (string, error) {
				_, got, err := c.Read(ctx)
				return string(got), err
			},
		)
		g := s.dial(t)
		require.NoError(t, g.SetReadDeadline(time.Now().Add(exampletest.Late)))
		keeps(
			func(text string) error { return g.WriteMessage(gorilla.TextMessage, []byte(text)) },
			func() (string, error) {
				_, got, err := g.ReadMessage()
				return string(got), err
			},
		)
		require.Eventually(t, func() bool { return s.keeper.Stats().Probes >= 8 }, exampletest.Late, 10*time.Millisecond, "four for each")
		stats := s.keeper.Stats()
		require.NoError(t, c.Write(ctx, coder.MessageText, []byte("still here")), "%+v", stats)
		require.NoError(t, g.WriteMessage(gorilla.TextMessage, []byte("still here")), "%+v", stats)
		require.Equal(t, "still here", <-answers)
		require.Equal(t, "still here", <-answers)
		require.Empty(t, s.told)
		require.Positive(t, s.keeper.Stats().RoundTrips.Count)
	})
}

func TestMessagesKeepASocket(t *testing.T) {
	each(t, func(t *testing.T, v variant) {
		s := start(t, v, echo)
		c := s.dial(t)
		heard, longest := time.Now(), time.Duration(0)
		last := exampletest.Talk(t, func() error {
			if err := c.WriteMessage(gorilla.BinaryMessage, []byte("hello")); err != nil {
				return err
			}
			_, _, err := c.ReadMessage()
			longest, heard = max(longest, time.Since(heard)), time.Now()
			return err
		})
		if longest < timeout/4 { // on a busy machine a message may be late, and then there is a ping
			require.Zero(t, s.keeper.Stats().Probes, "a message saves the ping")
		}
		c.SetPingHandler(func(string) error { return nil }) // like a hanging program
		exampletest.Gone(t, last, requireGoodbye(gorilla.CloseGoingAway, "no_answer", c))
		s.requireEnd(t, keepalive.ReasonNoAnswer)
	})
}

// A ping of the peer's own is life, too, but for coder without Hijacker.
func TestPingsOfThePeerKeepASocket(t *testing.T) {
	each(t, func(t *testing.T, v variant) {
		if v.library == "coder" && !v.hijack {
			return
		}
		s := start(t, v, echo)
		c := s.dial(t)
		c.SetPingHandler(func(string) error { return nil })
		pongs := 0
		c.SetPongHandler(func(string) error { pongs++; return nil })
		read := make(chan error, 1)
		go func() { read <- requireGoodbye(gorilla.CloseGoingAway, "no_answer", c)() }()
		last := exampletest.Talk(t, func() error { return c.WriteControl(gorilla.PingMessage, nil, time.Now().Add(timeout)) })
		exampletest.Gone(t, last, func() error { return <-read })
		require.Positive(t, pongs, "they are answered as before")
	})
}

// Bytes are no life.
func TestATrickledMessageKeepsNoSocket(t *testing.T) {
	each(t, func(t *testing.T, v variant) {
		s := start(t, v, echo)
		last := time.Now()
		c := s.dial(t)
		exampletest.Trickle(t, c.NetConn(), "\x81\xfe\xff\xff\x01\x02\x03\x04") // text, masked, of 64 KiB
		c.SetPingHandler(func(string) error { return nil })
		exampletest.Gone(t, last, requireGoodbye(gorilla.CloseGoingAway, "no_answer", c))
		s.requireEnd(t, keepalive.ReasonNoAnswer)
	})
}

func TestTheStatusFollowsFromTheReason(t *testing.T) {
	each(t, func(t *testing.T, v variant) {
		for reason, code := range map[keepalive.Reason]int{
			keepalive.ReasonLocal:   gorilla.CloseNormalClosure,
			keepalive.ReasonDrain:   gorilla.CloseGoingAway,
			keepalive.ReasonTooSlow: gorilla.ClosePolicyViolation,
		} {
			s := start(t, v, func(s socket, g *keepalive.Guard) error {
				g.Close(reason)
				return echo(s, g)
			})
			require.NoError(t, requireGoodbye(code, reason.String(), s.dial(t))())
			s.requireEnd(t, reason)
		}
	})
}

// Pages, event streams and WebSockets share a port and a Keeper.
func TestOnePort(t *testing.T) {
	each(t, func(t *testing.T, v variant) {
		s := start(t, v, echo)
		c := s.dial(t)
		stay := make(chan error, 1)
		go func() {
			_, message, err := c.ReadMessage()
			if err == nil && string(message) != "hello" {
				err = fmt.Errorf("got %q", message)
			}
			stay <- err
		}()
		transport := &http.Transport{TLSClientConfig: insecure(), ForceAttemptHTTP2: true}
		defer transport.CloseIdleConnections()
		client := &http.Client{Transport: transport}
		for path, want := range map[string]string{"/": "HTTP/", "/events": "data: at last"} {
			res, err := client.Get(s.url("http", path))
			require.NoError(t, err)
			body, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			require.Contains(t, string(body), want)
		}
		since := time.Now()
		raw, err := net.Dial("tcp", s.addr) // says nothing, and is not pinged
		require.NoError(t, err)
		defer raw.Close()
		exampletest.Gone(t, since, exampletest.EOF(raw))
		require.NoError(t, c.WriteMessage(gorilla.TextMessage, []byte("hello")))
		require.NoError(t, <-stay)
	})
}

// Pings come between the frames of several writers.
func TestWritersAndPings(t *testing.T) {
	each(t, func(t *testing.T, v variant) {
		const writers = 4
		message := []byte(strings.Repeat("x", 30_000))
		s := start(t, v, func(s socket, _ *keepalive.Guard) error {
			stop := make(chan struct{})
			var running sync.WaitGroup
			defer running.Wait()
			defer close(stop)
			for range writers {
				running.Go(func() {
					for s.write(message) == nil {
						select {
						case <-stop:
							return
						case <-time.After(100 * time.Millisecond): // the client keeps up with a tenth of a processor
						}
					}
				})
			}
			_, err := s.read()
			return err
		})
		s.probeOften(t)
		c := s.dial(t)
		pings := 0
		pong := c.PingHandler()
		c.SetPingHandler(func(data string) error { pings++; return pong(data) })
		for pings < 20 {
			_, got, err := c.ReadMessage()
			require.NoError(t, err)
			require.Equal(t, message, got)
		}
		c.SetPingHandler(func(string) error { return nil })
		require.NoError(t, requireGoodbye(gorilla.CloseGoingAway, "no_answer", c)())
		s.requireEnd(t, keepalive.ReasonNoAnswer)
	})
}

// probeOften has silent peers probed soon, and leaves them much time for an answer: the machine may be busy. Without
// an answer there is no second probe.
func (s *server) probeOften(t *testing.T) {
	often := s.keeper.Config()
	often.Timeout, often.Probe = 5*timeout, keepalive.Probing{After: timeout / 20}
	require.NoError(t, s.keeper.Update(often))
}

// Without a guard there is nothing to keep.
func TestNotGuarded(t *testing.T) {
	require.ErrorIs(t, wskeepalive.Gorilla(nil, new(gorilla.Conn)), keepalive.ErrNotGuarded)
	require.ErrorIs(t, wskeepalive.Coder(nil, new(coder.Conn)), keepalive.ErrNotGuarded)
}
