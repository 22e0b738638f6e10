package timeoutclient

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
)

// fakeServer is a transport with the answers of a server, for tests in a bubble.
type fakeServer struct {
	mu      sync.Mutex
	due     []wire.Leased
	failing int           // calls to fail
	slow    time.Duration // how long tasks are on their way
	left    time.Duration // the topic's lease, the longest; zero if a lease is lost
	ends    time.Time     // the topic's Timeout comes then, or never
	late    time.Duration // the answer to extend
	stopped time.Duration // the program, while extend is answered
	mute    int           // outcomes to get without an answer
	busy    time.Duration // before the answer to an outcome
	pulls   []wire.Pull
	extends []wire.Extend
	told    []wire.Feedback
}

func (f *fakeServer) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	rec := httptest.NewRecorder()
	if f.failing > 0 {
		f.failing--
		rec.WriteHeader(http.StatusBadGateway)
		return rec.Result(), nil
	}
	switch r.URL.Path {
	case "/v1/topics/t/pull":
		var asked wire.Pull
		_ = json.NewDecoder(r.Body).Decode(&asked)
		f.pulls = append(f.pulls, asked)
		n := min(asked.Max, len(f.due))
		wait := f.slow
		if n == 0 {
			wait = time.Duration(asked.Wait)
		}
		f.mu.Unlock()
		rest(r.Context(), wait)
		f.mu.Lock()
		_ = json.NewEncoder(rec).Encode(wire.Pulled{Tasks: append([]wire.Leased{}, f.due[:n]...)})
		f.due = f.due[n:]
	case "/v1/extend":
		var asked wire.Extend
		_ = json.NewDecoder(r.Body).Decode(&asked)
		f.extends = append(f.extends, asked)
		left := min(cmp.Or(time.Duration(asked.Lease), f.left), f.left)
		if !f.ends.IsZero() {
			left = max(0, min(left, time.Until(f.ends)))
		}
		_ = json.NewEncoder(rec).Encode(wire.Extended{Held: left > 0, Lease: wire.Duration(left)})
		f.mu.Unlock()
		rest(r.Context(), f.late)
		time.Sleep(f.stopped)
		f.mu.Lock()
		if f.stopped > 0 {
			return rec.Result(), nil // the end of the context is seen after this answer
		}
	case "/v1/feedback":
		var told wire.Feedback
		_ = json.NewDecoder(r.Body).Decode(&told)
		if f.mute > 0 {
			f.mute--
			f.mu.Unlock()
			<-r.Context().Done()
			f.mu.Lock()
			return nil, r.Context().Err()
		}
		f.mu.Unlock()
		rest(r.Context(), f.busy)
		f.mu.Lock()
		if r.Context().Err() == nil {
			f.told = append(f.told, told)
		}
		_ = json.NewEncoder(rec).Encode(wire.Settled{Settled: true})
	default:
		rec.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(rec).Encode(wire.Problem{Status: http.StatusNotFound, Detail: engine.ErrNotFound.Error()})
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return rec.Result(), nil
}

// CloseIdleConnections leaves no dead ones.
func (f *fakeServer) CloseIdleConnections() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mute = 0
}

func (f *fakeServer) client(t *testing.T) *Client {
	c, err := New("http://127.0.0.1:1", Config{HTTPClient: &http.Client{Transport: f}})
	require.NoError(t, err)
	return c
}

func leased(id string, lease time.Duration) wire.Leased {
	return wire.Leased{Task: wire.Task{Key: engine.Key{Topic: "t", ID: id}}, Token: id, Lease: wire.Duration(lease)}
}

func TestWorkRunsAsMuchAsItHasPlacesForAndTellsTheOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeServer{left: 30 * time.Second}
		for _, id := range []string{"a", "b", "c", "d", "e"} {
			f.due = append(f.due, leased(id, 30*time.Second))
		}
		f.failing = 2
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		running, most := 0, 0
		ended := make(chan error, 1)
		go func() {
			ended <- f.client(t).Work(ctx, Pull{Topic: "t", Max: 2}, func(_ context.Context, one Leased) Outcome {
				mu.Lock()
				running++
				most = max(most, running)
				mu.Unlock()
				time.Sleep(55 * time.Second)
				mu.Lock()
				running--
				mu.Unlock()
				return Outcome{Error: "of " + one.ID}
			})
		}()
		time.Sleep(4 * time.Minute)
		cancel()
		require.NoError(t, <-ended)
		require.Equal(t, 2, most)
		require.Len(t, f.told, 5)
		for _, told := range f.told {
			require.Equal(t, "of "+told.Token, told.Error)
		}
		require.Len(t, f.extends, 5*5, "every 10s, and none after the outcome")
	})
}

func TestTheContextOfWorkEndsWithTheLease(t *testing.T) {
	for name, c := range map[string]struct {
		server  *fakeServer
		failing int
		limit   time.Duration // the topic's Timeout
		after   time.Duration
	}{
		"lost":                   {&fakeServer{}, 0, 0, 10 * time.Second},
		"used up":                {&fakeServer{left: 30 * time.Second}, 0, 77 * time.Second, 77 * time.Second},
		"used up, and told late": {&fakeServer{left: 30 * time.Second, late: 2 * time.Second}, 0, 77 * time.Second, 77 * time.Second},
		"stopped":                {&fakeServer{left: 30 * time.Second, stopped: 35 * time.Second}, 0, 0, 45 * time.Second},
		"the server is away":     {&fakeServer{left: 30 * time.Second}, 1000, 0, 30 * time.Second},
		"the server hangs":       {&fakeServer{left: 30 * time.Second, late: time.Hour}, 0, 0, 30 * time.Second},
		"the server comes back":  {&fakeServer{left: 30 * time.Second}, 2, 0, 90 * time.Second},
		"a shorter lease":        {&fakeServer{left: 10 * time.Second}, 0, 0, 90 * time.Second},
		"a much shorter one":     {&fakeServer{left: 500 * time.Millisecond}, 0, 0, 90 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := c.server
				f.due = []wire.Leased{leased("a", 30*time.Second)}
				if c.limit > 0 {
					f.ends = time.Now().Add(c.limit)
				}
				ctx, cancel := context.WithCancel(t.Context())
				var cause error
				var after time.Duration
				ended := make(chan error, 1)
				go func() {
					ended <- f.client(t).Work(ctx, Pull{Topic: "t"}, func(ctx context.Context, _ Leased) Outcome {
						f.mu.Lock()
						f.failing = c.failing
						f.mu.Unlock()
						began := time.Now()
						select {
						case <-ctx.Done():
						case <-time.After(90 * time.Second):
						}
						after, cause = time.Since(began), context.Cause(ctx)
						return Outcome{}
					})
				}()
				time.Sleep(3 * time.Minute)
				cancel()
				require.NoError(t, <-ended)
				require.Equal(t, c.after, after)
				if after < 90*time.Second {
					require.ErrorIs(t, cause, ErrLeaseLost)
				}
				most := 50
				if f.left > 0 {
					most += int(4 * after / f.left)
				}
				require.Less(t, len(f.extends), most)
			})
		})
	}
}

// The answer had to wait at the server, so most of the first lease is over.
func TestAShortRestOfALeaseIsExtendedToAWholeOne(t *testing.T) {
	for _, asked := range []time.Duration{0, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			f := &fakeServer{left: time.Minute, due: []wire.Leased{leased("a", 150*time.Millisecond)}}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				ended <- f.client(t).Work(ctx, Pull{Topic: "t", Lease: asked}, func(context.Context, Leased) Outcome {
					time.Sleep(50 * time.Second)
					f.mu.Lock()
					f.failing = 5
					f.mu.Unlock()
					return Outcome{}
				})
			}()
			time.Sleep(2 * time.Minute)
			cancel()
			require.NoError(t, <-ended)
			require.Len(t, f.extends, 3, "after 50ms, and then every 20s")
			for _, extend := range f.extends {
				require.Equal(t, asked, time.Duration(extend.Lease))
			}
			require.Len(t, f.told, 1, "by the length of the lease that it has now")
		})
	}
}

// The lease must not be over when the outcome is told.
func TestAnOutcomeWaitsForNoExtension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeServer{late: time.Hour, due: []wire.Leased{leased("a", 30*time.Second)}}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- f.client(t).Work(ctx, Pull{Topic: "t"}, func(context.Context, Leased) Outcome {
				time.Sleep(11 * time.Second)
				return Outcome{}
			})
		}()
		time.Sleep(11 * time.Second)
		synctest.Wait()
		require.Len(t, f.extends, 1)
		require.Len(t, f.told, 1)
		cancel()
		require.NoError(t, <-ended)
	})
}

// The connection's server has gone, and another one is there.
func TestAnOutcomeWithoutAnAnswerIsToldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeServer{mute: 3, due: []wire.Leased{leased("a", 30*time.Second)}} // connections
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- f.client(t).Work(ctx, Pull{Topic: "t"}, func(context.Context, Leased) Outcome { return Outcome{} })
		}()
		time.Sleep(30 * time.Second)
		cancel()
		require.NoError(t, <-ended)
		require.Len(t, f.told, 1)
	})
}

// A try that is given up is for nothing, and the next one is no quicker.
func TestABusyServerHearsOfAnOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeServer{busy: 15 * time.Second}
		f.client(t).tell(t.Context(), Leased{Lease: 30 * time.Second}, Outcome{}, 30*time.Second)
		require.Len(t, f.told, 1)
	})
}

// Over HTTP/2 the second try has the connection of the first. The network of it is gone.
func TestAnOutcomeIsToldThoughItsConnectionIsDead(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(wire.Settled{Settled: true})
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	var dead atomic.Bool // the first connection
	first := true
	transport := NewTransport().(*http.Transport)
	transport.TLSClientConfig = server.Client().Transport.(*http.Transport).TLSClientConfig
	transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		if first && err == nil {
			first = false
			return &mortal{Conn: c, dead: &dead}, nil
		}
		return c, err
	}
	c, err := New(server.URL, Config{HTTPClient: &http.Client{Transport: transport}})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	_, err = c.Feedback(t.Context(), "a", Outcome{})
	require.NoError(t, err)
	dead.Store(true)
	began := time.Now()
	const patience = 2 * time.Minute // of which the pings need 15 s
	c.tell(t.Context(), Leased{Token: "a"}, Outcome{}, patience)
	require.Less(t, time.Since(began), patience)
	require.False(t, first)
}

// mortal is a connection whose network goes, both ways.
type mortal struct {
	net.Conn
	dead *atomic.Bool
}

func (m *mortal) Write(b []byte) (int, error) {
	if m.dead.Load() {
		return len(b), nil
	}
	return m.Conn.Write(b)
}

// The answer has left the server when the program is told to end.
func TestTheTasksOfAnAnswerOnItsWayAreHandedBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeServer{due: []wire.Leased{leased("a", time.Hour), leased("b", time.Hour)}, slow: 400 * time.Millisecond}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- f.client(t).Work(ctx, Pull{Topic: "t", Max: 2}, func(context.Context, Leased) Outcome { panic("it has ended") })
		}()
		time.Sleep(100 * time.Millisecond)
		cancel()
		require.NoError(t, <-ended)
		tokens := []string{}
		for _, told := range f.told {
			require.True(t, told.Returned)
			tokens = append(tokens, told.Token)
		}
		require.ElementsMatch(t, []string{"a", "b"}, tokens)
		require.Empty(t, f.extends)
	})
}

// overHTTP calls f with a client of a server that answers pulls. Both are in a bubble. It returns what f's
// program has told.
func overHTTP(t *testing.T, pull http.HandlerFunc, f func(*Client)) (told []wire.Feedback) {
	conns := make(pipes)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/feedback" {
			pull(w, r)
			return
		}
		var one wire.Feedback
		_ = json.NewDecoder(r.Body).Decode(&one)
		told = append(told, one)
		_ = json.NewEncoder(w).Encode(wire.Settled{Settled: true})
	})}
	go func() { _ = server.Serve(conns) }()
	c, err := New("http://127.0.0.1:1", Config{HTTPClient: &http.Client{Transport: &http.Transport{DialContext: conns.dial}}})
	require.NoError(t, err)
	f(c)
	c.Close()
	require.NoError(t, server.Close())
	return told
}

// The answer has begun when the program is told to end. Its payloads are large, and the network is slow.
func TestTheTasksOfALongAnswerAreHandedBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := overHTTP(t, func(w http.ResponseWriter, _ *http.Request) {
			text, _ := json.Marshal(wire.Pulled{Tasks: []wire.Leased{leased("a", time.Hour)}})
			for _, b := range text {
				_, _ = w.Write([]byte{b})
				_ = http.NewResponseController(w).Flush()
				time.Sleep(4 * time.Second / time.Duration(len(text)))
			}
		}, func(c *Client) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			require.NoError(t, c.Work(ctx, Pull{Topic: "t"}, func(context.Context, Leased) Outcome { panic("it has ended") }))
		})
		require.Equal(t, []wire.Feedback{{Token: "a", Returned: true}}, told)
	})
}

func TestAnIdleWorkEndsSoonAfterAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pulls atomic.Int64
		told := overHTTP(t, func(w http.ResponseWriter, r *http.Request) {
			if pulls.Add(1) > 1 {
				_, _ = io.Copy(io.Discard, r.Body) // then the server hears of the end of the connection
				<-r.Context().Done()
				return
			}
			_ = json.NewEncoder(w).Encode(wire.Pulled{Tasks: []wire.Leased{leased("a", time.Hour)}})
		}, func(c *Client) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(5*time.Second, cancel)
			began := time.Now()
			require.NoError(t, c.Work(ctx, Pull{Topic: "t"}, func(context.Context, Leased) Outcome { return Outcome{} }))
			require.LessOrEqual(t, time.Since(began), 6*time.Second)
		})
		require.EqualValues(t, 2, pulls.Load())
		require.Equal(t, []wire.Feedback{{Token: "a"}}, told)
	})
}

// pipes is a listener in a bubble.
type pipes chan net.Conn

func (p pipes) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	p <- there
	return here, nil
}

func (p pipes) Accept() (net.Conn, error) {
	if c := <-p; c != nil {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// Server and worker often go down together.
func TestWorkEndsAlthoughNobodyTakesItsTasksBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeServer{due: []wire.Leased{leased("a", time.Hour)}, slow: 400 * time.Millisecond}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- f.client(t).Work(ctx, Pull{Topic: "t"}, nil) }()
		time.Sleep(100 * time.Millisecond)
		f.mu.Lock()
		f.failing = 1000
		f.mu.Unlock()
		cancel()
		began := time.Now()
		require.NoError(t, <-ended)
		require.Less(t, time.Since(began), 10*time.Second)
	})
}

func TestAnIdleWorkEndsSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- (&fakeServer{}).client(t).Work(ctx, Pull{Topic: "t"}, nil) }()
		time.Sleep(5 * time.Second)
		cancel()
		began := time.Now()
		require.NoError(t, <-ended)
		require.LessOrEqual(t, time.Since(began), time.Second)
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestWorkGoesOnAfterAProxyWithoutTime(t *testing.T) {
	for _, status := range []int{http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusGatewayTimeout} {
		synctest.Test(t, func(t *testing.T) {
			answers := []int{status, http.StatusForbidden}
			c, err := New("http://127.0.0.1:1", Config{HTTPClient: &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
				rec := httptest.NewRecorder()
				rec.WriteHeader(answers[0])
				answers = answers[1:]
				return rec.Result(), nil
			})}})
			require.NoError(t, err)
			require.ErrorContains(t, c.Work(t.Context(), Pull{Topic: "t"}, nil), http.StatusText(http.StatusForbidden))
			require.Empty(t, answers)
		})
	}
}

func TestWorkEndsWithAnErrorThatStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := (&fakeServer{}).client(t)
		do := func(context.Context, Leased) Outcome { panic("there is no task") }
		require.ErrorIs(t, c.Work(t.Context(), Pull{Topic: "nobody"}, do), engine.ErrNotFound)
		require.ErrorIs(t, c.Work(t.Context(), Pull{Topic: "!"}, do), engine.ErrArgument)
		require.ErrorIs(t, c.Work(t.Context(), Pull{Topic: "t", Max: -1}, do), engine.ErrArgument)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, c.Work(ended, Pull{Topic: "t"}, do))
	})
}
