package httpkeepalive_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/certtest"
	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/httpkeepalive"
)

// In these tests a request is just arriving when its connection is to end. They run in bubbles, on pipes.

const (
	lastWord  = 1500 * time.Millisecond // from the call of Ending to the end of an idle connection
	maxHeader = 10 * time.Second        // for a request that has begun to arrive by then
)

// hour is the config of most tests: no silence ends the connection. The coarse tick makes the tests fast.
var hour = keepalive.Config{Timeout: time.Hour, Tick: 100 * time.Millisecond}

// halves are a request.
var halves = [2]string{"GET /next HTTP/1.1\r\nHo", "st: a\r\n\r\n"}

// arrival is a server on pipes, with one client.
type arrival struct {
	k      *keepalive.Keeper
	srv    *http.Server
	client net.Conn
	in     *bufio.Reader
	ended  chan keepalive.Reason
	slow   atomic.Int64 // how long the server takes from a header to its handler, in ns
}

// pipes is a listener of pipes.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (p pipes) Close() error { close(p); return nil }
func (pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "unix"} }

// serveOnPipes serves in a bubble. The returned function ends the server.
func serveOnPipes(t *testing.T, overTLS bool, cfg keepalive.Config, handler http.HandlerFunc, set ...func(*http.Server)) (a *arrival, end func()) {
	a = &arrival{ended: make(chan keepalive.Reason, 1)}
	cfg.OnClose = func(_ any, reason keepalive.Reason) { a.ended <- reason }
	var err error
	a.k, err = keepalive.New(cfg)
	require.NoError(t, err)
	a.srv = &http.Server{Handler: handler, ErrorLog: log.New(io.Discard, "", 0), TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){}}
	a.srv.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateActive {
			time.Sleep(time.Duration(a.slow.Load()))
		}
	}
	httpkeepalive.Wrap(a.srv, a.k)
	for _, set := range set {
		set(a.srv)
	}
	ln := make(pipes, 1)
	server, client := net.Pipe()
	ln <- server
	served := make(chan error, 1)
	if a.client = client; overTLS {
		certificate, _ := certtest.New(t)
		a.srv.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
		a.client = tls.Client(client, &tls.Config{InsecureSkipVerify: true})
		go func() { served <- a.srv.ServeTLS(a.k.Listener(ln), "", "") }()
	} else {
		go func() { served <- a.srv.Serve(a.k.Listener(ln)) }()
	}
	a.in = bufio.NewReader(a.client)
	return a, func() {
		_ = a.srv.Close()
		require.ErrorIs(t, <-served, http.ErrServerClosed)
		client.Close()
		require.NoError(t, a.k.Close())
	}
}

// ask sends a whole request, and reads the response.
func (a *arrival) ask(t *testing.T, request string) {
	_, err := io.WriteString(a.client, request)
	require.NoError(t, err)
	res, err := http.ReadResponse(a.in, nil)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, res.Body)
	require.NoError(t, err)
	require.False(t, res.Close)
}

// finish sends the second half, reads the last response, and returns why the connection has ended.
func (a *arrival) finish(t *testing.T) keepalive.Reason {
	_, err := io.WriteString(a.client, halves[1])
	require.NoError(t, err)
	res, err := http.ReadResponse(a.in, nil)
	require.NoError(t, err)
	require.True(t, res.Close, "it says Connection: close")
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, "/next", string(body))
	_, err = a.in.ReadByte()
	require.ErrorIs(t, err, io.EOF)
	return <-a.ended
}

func answer(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	fmt.Fprint(w, r.URL.Path)
}

// ways are how the end of a connection comes. They return what waits for it.
var ways = map[string]struct {
	age   keepalive.Age
	paced int
	begin func(a *arrival) (wait func() error)
	want  keepalive.Reason
	short bool // half a header has a last word, and no ten seconds more
}{
	"an age":       {age: keepalive.Age{Max: time.Minute, Jitter: -1}, want: keepalive.ReasonMaxAge},
	"a paced age":  {age: keepalive.Age{Max: time.Minute, Jitter: -1}, paced: 1, want: keepalive.ReasonMaxAge},
	"a long grace": {age: keepalive.Age{Max: time.Minute, Jitter: -1, Grace: time.Minute}, want: keepalive.ReasonMaxAge},
	"a drain": {want: keepalive.ReasonDrain, begin: func(a *arrival) func() error {
		return inBackground(func() error { return a.k.Drain(context.Background(), 0) })
	}},
	"a spread drain": {want: keepalive.ReasonDrain, begin: func(a *arrival) func() error {
		return inBackground(func() error { return a.k.Drain(context.Background(), time.Second) })
	}},
	"a shutdown": {want: keepalive.ReasonDrain, short: true, begin: func(a *arrival) func() error {
		return inBackground(func() error { return httpkeepalive.Shutdown(context.Background(), a.srv, a.k) })
	}},
}

func inBackground(f func() error) (wait func() error) {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return func() error { return <-done }
}

// The end has come when half of the request is there. The other half comes when an idle connection would be closed.
func TestARequestThatHasBegunToArriveIsAnswered(t *testing.T) {
	certtest.New(t) // outside of a bubble
	for way, test := range ways {
		for name, before := range map[string][]string{
			"the first one":       {""},
			"the second one":      {"GET / HTTP/1.1\r\nHost: a\r\n\r\n"},
			"after a body":        {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"},
			"the second one, TLS": {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "TLS"},
		} {
			t.Run(way+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					a, end := serveOnPipes(t, len(before) > 1, keepalive.Config{
						Timeout: time.Hour, Tick: 100 * time.Millisecond, Age: test.age, Closing: keepalive.Closing{MaxPerSecond: test.paced},
					}, answer)
					defer end()
					if before[0] != "" {
						a.ask(t, before[0])
					}
					time.Sleep(time.Minute - lastWord/2)
					_, err := io.WriteString(a.client, halves[0])
					require.NoError(t, err)
					synctest.Wait() // it is read
					wait := func() error { return nil }
					if test.begin != nil {
						wait = test.begin(a)
					}
					if test.short {
						time.Sleep(lastWord - 100*time.Millisecond)
					} else {
						time.Sleep(lastWord + maxHeader - time.Second)
					}
					require.Equal(t, test.want, a.finish(t))
					require.NoError(t, wait())
				})
			})
		}
	}
}

// A response may be whole before its handler has ended. Then the client sends half of its next request.
func TestARequestThatBeginsToArriveDuringTheOneBeforeIsAnswered(t *testing.T) {
	for _, overTLS := range []bool{false, true} {
		t.Run(fmt.Sprintf("tls=%v", overTLS), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, end := serveOnPipes(t, overTLS, hour, func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Length", fmt.Sprint(len(r.URL.Path)))
					answer(w, r)
					_ = http.NewResponseController(w).Flush()
					time.Sleep(time.Second)
				})
				defer end()
				a.ask(t, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
				written := inBackground(func() error { _, err := io.WriteString(a.client, halves[0]); return err })
				time.Sleep(2 * time.Second)
				require.NoError(t, written())
				drained := inBackground(func() error { return a.k.Drain(context.Background(), 0) })
				time.Sleep(2 * lastWord)
				require.Equal(t, keepalive.ReasonDrain, a.finish(t))
				require.NoError(t, drained())
			})
		})
	}
}

// The rest never comes: a drain does not wait for ever, nor does an age.
func TestAHeaderHasTenSecondsToArrive(t *testing.T) {
	for way, test := range ways {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, end := serveOnPipes(t, false, keepalive.Config{
					Timeout: time.Hour, Tick: 100 * time.Millisecond, Age: test.age, Closing: keepalive.Closing{MaxPerSecond: test.paced},
				}, answer)
				defer end()
				a.ask(t, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
				_, err := io.WriteString(a.client, halves[0])
				require.NoError(t, err)
				synctest.Wait()         // it is read
				time.Sleep(time.Minute) // an age has come
				begin, grace := time.Now(), lastWord+maxHeader
				wait := func() error { return nil }
				if test.begin != nil {
					wait = test.begin(a)
				}
				if test.age.Grace > 0 {
					grace = test.age.Grace
				}
				if test.short {
					grace = lastWord
				}
				trickled := inBackground(func() (err error) {
					for ; err == nil; time.Sleep(time.Second) { // a byte now and then is no header
						_, err = io.WriteString(a.client, "x")
					}
					return err
				})
				require.Equal(t, test.want, <-a.ended)
				require.InDelta(t, grace, time.Since(begin), float64(300*time.Millisecond))
				require.NoError(t, wait())
				require.ErrorIs(t, trickled(), io.ErrClosedPipe)
			})
		})
	}
}

// The server's own limit comes first, and so does the context of a drain. It says that a request was cut.
func TestOtherLimitsOfAHeaderHold(t *testing.T) {
	t.Run("ReadHeaderTimeout", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a, end := serveOnPipes(t, false, hour, answer, func(srv *http.Server) { srv.ReadHeaderTimeout = 5 * time.Second })
			defer end()
			a.ask(t, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			begin := time.Now()
			_, err := io.WriteString(a.client, halves[0])
			require.NoError(t, err)
			synctest.Wait() // it is read
			answered := inBackground(func() error { _, err := io.Copy(io.Discard, a.in); return err })
			require.NoError(t, a.k.Drain(t.Context(), 0))
			require.NoError(t, answered())
			require.InDelta(t, 5*time.Second, time.Since(begin), float64(300*time.Millisecond))
		})
	})
	t.Run("the context of a drain", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a, end := halfAsked(t)
			defer end()
			begin := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			err := a.k.Drain(ctx, 0)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorContains(t, err, "cut 1 connections in the middle of a request")
			require.InDelta(t, 5*time.Second, time.Since(begin), float64(300*time.Millisecond))
			require.Equal(t, keepalive.ReasonDrain, <-a.ended)
		})
	})
	// One stray byte looks like half a header, and must not cost the requests of others their time.
	t.Run("a third of the context of a shutdown", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a, end := halfAsked(t)
			defer end()
			begin := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 900*time.Millisecond)
			defer cancel()
			require.NoError(t, httpkeepalive.Shutdown(ctx, a.srv, a.k))
			require.InDelta(t, 300*time.Millisecond, time.Since(begin), float64(200*time.Millisecond))
			require.Equal(t, keepalive.ReasonDrain, <-a.ended)
		})
	})
}

// halfAsked serves a client that has sent half of its second request.
func halfAsked(t *testing.T) (a *arrival, end func()) {
	a, end = serveOnPipes(t, false, hour, answer)
	a.ask(t, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	_, err := io.WriteString(a.client, halves[0])
	require.NoError(t, err)
	synctest.Wait() // it is read
	return a, end
}

// Bytes before the first request may be a handshake of TLS. As long as some come, a request may be among them.
func TestBytesBeforeTheFirstRequestOverTLSHaveALastWordOfTheirOwn(t *testing.T) {
	for name, test := range map[string]struct {
		pause time.Duration
		want  error
	}{
		"they go on coming": {pause: lastWord - 100*time.Millisecond},
		"they stop":         {pause: lastWord + 100*time.Millisecond, want: io.EOF},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, end := serveOnPipes(t, true, hour, answer)
				defer end()
				require.NoError(t, a.client.(*tls.Conn).Handshake())
				drained := inBackground(func() error { return a.k.Drain(context.Background(), 0) })
				time.Sleep(lastWord / 2)
				_, err := io.WriteString(a.client, halves[0])
				require.NoError(t, err)
				synctest.Wait() // it is read
				time.Sleep(test.pause)
				if test.want == nil {
					require.Equal(t, keepalive.ReasonDrain, a.finish(t))
				} else {
					_, err := a.in.ReadByte()
					require.True(t, errors.Is(err, test.want), "%v", err)
				}
				require.NoError(t, drained())
			})
		})
	}
}

// Shutdown gives a new connection its last word for the first request.
func TestShutdownAnswersAFirstRequest(t *testing.T) {
	for _, overTLS := range []bool{false, true} {
		t.Run(fmt.Sprintf("tls=%v", overTLS), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, end := serveOnPipes(t, overTLS, hour, answer)
				defer end()
				time.Sleep(lastWord)
				down := inBackground(func() error { return httpkeepalive.Shutdown(t.Context(), a.srv, a.k) })
				time.Sleep(lastWord - 100*time.Millisecond)
				_, err := io.WriteString(a.client, halves[0])
				require.NoError(t, err)
				synctest.Wait() // it is read
				require.Equal(t, keepalive.ReasonDrain, a.finish(t))
				require.NoError(t, down())
			})
		})
	}
}

// The server is told to shut down when the header has arrived, and sends no GOAWAY before. The others have their last word
// after that.
func TestIdleConnectionsStayUntilTheServerIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, end := serveOnPipes(t, false, hour, answer)
		defer end()
		_, err := io.WriteString(a.client, halves[0])
		require.NoError(t, err)
		synctest.Wait()           // it is read
		inner, peer := net.Pipe() // of another server, which shuts down by itself
		defer peer.Close()
		other := a.k.Conn(inner)
		defer other.Close()
		keepalive.Of(other).Binding().Exchanges(func() {}, nil)
		keepalive.Of(other).Binding().Exchange(true)
		keepalive.Of(other).Binding().Exchange(false)
		shutdown := time.Now()
		down := inBackground(func() error { return httpkeepalive.Shutdown(t.Context(), a.srv, a.k) })
		time.Sleep(time.Second)
		require.Equal(t, keepalive.ReasonDrain, a.finish(t))
		require.Equal(t, keepalive.ReasonDrain, <-a.ended)
		require.InDelta(t, time.Second+lastWord, time.Since(shutdown), float64(300*time.Millisecond))
		require.NoError(t, down())
	})
}

// Neither what comes before the first request nor what came with the last one holds an idle connection up.
func TestAnIdleConnectionHoldsUpNoDrain(t *testing.T) {
	for name, before := range map[string][]string{
		"no request":       {""},
		"a request":        {"GET / HTTP/1.1\r\nHost: a\r\n\r\n"},
		"a body":           {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"},
		"no request, TLS":  {"", "TLS"},
		"a request, TLS":   {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "TLS"},
		"a body, TLS":      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", "TLS"},
		"an OPTIONS, body": {"OPTIONS * HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, end := serveOnPipes(t, len(before) > 1, hour, answer)
				defer end()
				if before[0] != "" {
					a.ask(t, before[0])
				} else if c, ok := a.client.(*tls.Conn); ok {
					require.NoError(t, c.Handshake())
				}
				time.Sleep(time.Second)
				begin := time.Now()
				go func() { _, _ = io.Copy(io.Discard, a.client) }()
				require.NoError(t, a.k.Drain(t.Context(), 0))
				require.InDelta(t, lastWord, time.Since(begin), float64(300*time.Millisecond))
			})
		})
	}
}

// The server is told when no request can come to it any more that net/http would drop.
func TestShutdownAnswersARequestThatComesBesideIt(t *testing.T) {
	certtest.New(t) // outside of a bubble
	const request = "GET /next HTTP/1.1\r\nHost: a\r\n\r\n"
	stream := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/stream" {
			answer(w, r)
			return
		}
		w.Header().Set("Content-Length", "1")
		_ = http.NewResponseController(w).Flush()
		time.Sleep(2 * time.Second)
		fmt.Fprint(w, "x")
	}
	for name, begin := range map[string]func(t *testing.T, a *arrival, shutdown func()){
		"on an idle connection": func(t *testing.T, a *arrival, shutdown func()) {
			a.ask(t, request)
			shutdown()
			time.Sleep(lastWord - 100*time.Millisecond)
		},
		"behind a response without Connection: close": func(t *testing.T, a *arrival, shutdown func()) {
			time.AfterFunc(time.Second, shutdown)
			a.ask(t, "GET /stream HTTP/1.1\r\nHost: a\r\n\r\n")
		},
		"and its goroutine is slow to look": func(t *testing.T, a *arrival, shutdown func()) {
			a.ask(t, request)
			a.slow.Store(int64(5 * time.Second))
			time.AfterFunc(time.Second, shutdown)
		},
		"as the first one, and its goroutine is slow to look": func(_ *testing.T, a *arrival, shutdown func()) {
			a.slow.Store(int64(5 * time.Second))
			time.AfterFunc(time.Second, shutdown)
		},
	} {
		for _, overTLS := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/tls=%v", name, overTLS), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					a, end := serveOnPipes(t, overTLS, hour, stream)
					defer end()
					down := make(chan error, 1)
					begin(t, a, func() { go func() { down <- httpkeepalive.Shutdown(t.Context(), a.srv, a.k) }() })
					_, err := io.WriteString(a.client, request[:len(request)-len(halves[1])])
					require.NoError(t, err)
					require.Equal(t, keepalive.ReasonDrain, a.finish(t))
					require.NoError(t, <-down)
				})
			})
		}
	}
}

// The decision on an idle connection comes late, or its end takes its time.
func TestAnIdleConnectionThatIsSlowToEndHoldsUpNoServer(t *testing.T) {
	certtest.New(t) // outside of a bubble
	for name, test := range map[string]struct {
		overTLS bool
		cfg     keepalive.Config
	}{
		"a long tick":                  {cfg: keepalive.Config{Timeout: time.Hour, Tick: 10 * time.Second}},
		"the peer takes no word of it": {overTLS: true, cfg: keepalive.Config{Timeout: time.Hour, Tick: 100 * time.Millisecond, Closing: keepalive.Closing{Timeout: 4 * time.Second}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, end := serveOnPipes(t, test.overTLS, test.cfg, answer)
				defer end()
				a.ask(t, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
				told := make(chan time.Time, 1)
				a.srv.RegisterOnShutdown(func() { told <- time.Now() })
				begin := time.Now()
				down := inBackground(func() error { return httpkeepalive.Shutdown(t.Context(), a.srv, a.k) })
				require.InDelta(t, lastWord, (<-told).Sub(begin), float64(600*time.Millisecond))
				require.NoError(t, down())
				require.Less(t, time.Since(begin), lastWord+5*time.Second)
				require.Equal(t, keepalive.ReasonDrain, <-a.ended)
			})
		})
	}
}

// What comes after its preface is no half of a request.
func TestHTTP2WithPriorKnowledgeAndNoRequestHoldsUpNoDrain(t *testing.T) {
	for name, drain := range map[string]func(ctx context.Context, a *arrival) error{
		"a drain":    func(ctx context.Context, a *arrival) error { return a.k.Drain(ctx, 0) },
		"a shutdown": func(ctx context.Context, a *arrival) error { return httpkeepalive.Shutdown(ctx, a.srv, a.k) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, end := serveOnPipes(t, false, hour, answer, func(srv *http.Server) {
					srv.Protocols = new(http.Protocols)
					srv.Protocols.SetHTTP1(true)
					srv.Protocols.SetUnencryptedHTTP2(true)
				})
				defer end()
				go func() { _, _ = io.Copy(io.Discard, a.client) }()
				_, err := io.WriteString(a.client, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00") // SETTINGS
				require.NoError(t, err)
				synctest.Wait()
				_, err = io.WriteString(a.client, "\x00\x00\x00\x04\x01\x00\x00\x00\x00") // and its ACK
				require.NoError(t, err)
				time.Sleep(2 * lastWord)
				begin := time.Now()
				require.NoError(t, drain(t.Context(), a))
				require.Less(t, time.Since(begin), lastWord+300*time.Millisecond)
			})
		})
	}
}

func TestARequestIsKnownWhateverConnContextReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := make(chan *keepalive.Guard, 1)
		a, end := serveOnPipes(t, false, hour, func(w http.ResponseWriter, r *http.Request) {
			begun <- httpkeepalive.Guard(r)
			time.Sleep(lastWord + maxHeader + time.Second)
			answer(w, r)
		}, func(srv *http.Server) {
			srv.ConnContext = func(context.Context, net.Conn) context.Context { return context.Background() }
		})
		defer end()
		_, err := io.WriteString(a.client, halves[0]+halves[1])
		require.NoError(t, err)
		info, ok := (<-begun).Info()
		require.True(t, ok)
		require.True(t, info.Held)
		drained := inBackground(func() error { return a.k.Drain(t.Context(), 0) })
		res, err := http.ReadResponse(a.in, nil)
		require.NoError(t, err)
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.Equal(t, "/next", string(body))
		require.NoError(t, drained())
	})
}
