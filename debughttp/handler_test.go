package debughttp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/ssekeepalive"
)

const ms = time.Millisecond

func TestBadArgumentsAreErrorsThatNameThem(t *testing.T) {
	_, err := New(nil, Config{})
	require.ErrorIs(t, err, ErrArgument)
	require.ErrorContains(t, err, "Keeper is nil")
	_, err = New(new(keepalive.Keeper), Config{})
	require.ErrorIs(t, err, ErrArgument)
	require.ErrorContains(t, err, "Keeper, must be one from keepalive.New")
	_, err = New(newKeeper(t, keepalive.Config{}), Config{Recent: 1001})
	require.ErrorIs(t, err, ErrArgument)
	require.ErrorContains(t, err, "Recent 1001, must be at most 1000")
}

func TestTheZeroConfigHasTheNameOfTheProgram(t *testing.T) {
	h := newHandler(t, newKeeper(t, keepalive.Config{}), Config{})
	require.Equal(t, filepath.Base(os.Args[0]), see(t, h).Name)
}

func TestOnlyGetAndHeadAreAllowed(t *testing.T) {
	h := newHandler(t, newKeeper(t, keepalive.Config{}), Config{})
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "BREW"} {
		r := from(local, "localhost")
		r.Method = method
		w := ask(h, r)
		require.Equal(t, http.StatusMethodNotAllowed, w.Code, method)
		require.Equal(t, "GET, HEAD", w.Header().Get("Allow"))
		require.Contains(t, w.Body.String(), method)
	}
	for _, format := range []string{"html", "json"} {
		r := from(local, "localhost")
		r.Method, r.URL.RawQuery = http.MethodHead, "format="+format
		w := ask(h, r)
		require.Equal(t, http.StatusOK, w.Code)
		require.Empty(t, w.Body.String())
		require.NotEqual(t, "0", w.Header().Get("Content-Length"))
	}
}

func TestTheFormatIsWhatTheQuerySaysOrTheHeaderPrefers(t *testing.T) {
	h := newHandler(t, newKeeper(t, keepalive.Config{}), Config{})
	const html, json = "text/html; charset=utf-8", "application/json"
	for _, test := range []struct{ query, accept, want string }{
		{"", "", html},
		{"", "*/*", html},
		{"", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", html},
		{"", "application/json", json},
		{"", "Application/JSON; charset=utf-8", json},
		{"", "text/html;q=0.5, application/json", json},
		{"", "text/html, application/json;q=0.9", html},
		{"", "application/json;q=0", html},
		{"", "application/json;q=x, ;;;, /", json},
		{"format=json", "text/html", json},
		{"format=html", "application/json", html},
		{"format=json&t=1", "", json},
	} {
		r := from(local, "localhost")
		r.URL.RawQuery = test.query
		r.Header.Set("Accept", test.accept)
		require.Equal(t, test.want, ask(h, r).Header().Get("Content-Type"), test)
	}
	r := from(local, "localhost")
	r.URL.RawQuery = "format=%3Cxml%3E"
	w := ask(h, r)
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Contains(t, w.Body.String(), `format "<xml>", must be json or html`)
}

func TestEveryAnswerIsShutAgainstOthers(t *testing.T) {
	h := newHandler(t, newKeeper(t, keepalive.Config{}), Config{})
	post := from(local, "localhost")
	post.Method = http.MethodPost
	page := from(local, "localhost")
	page.URL.RawQuery = ""
	for _, r := range []*http.Request{from(local, "localhost"), from("192.0.2.1:1", "x"), post, page} {
		header := ask(h, r).Header()
		require.Equal(t, "no-store", header.Get("Cache-Control"))
		require.Equal(t, "nosniff", header.Get("X-Content-Type-Options"))
		require.Equal(t, "no-referrer", header.Get("Referrer-Policy"))
		require.Equal(t, "same-origin", header.Get("Cross-Origin-Resource-Policy"))
		require.Equal(t, "DENY", header.Get("X-Frame-Options"))
		require.Contains(t, header.Get("Content-Security-Policy"), "default-src 'none'")
		require.Contains(t, header.Get("Content-Security-Policy"), "frame-ancestors 'none'")
		require.Empty(t, header.Get("Set-Cookie"))
		require.Empty(t, header.Get("Access-Control-Allow-Origin"))
	}
}

func TestTheSnapshotSaysWhatHappened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, keepalive.Config{Timeout: 10 * time.Second, Room: keepalive.Room{MaxConns: 4}, Advise: true})
		h := newHandler(t, k, Config{Name: "gateway"})
		defer k.Close()
		connect(t, k, addr("192.0.2.1:1"))
		local, _ := connect(t, k, addr("192.0.2.2:2"))
		slow, _ := connect(t, k, addr("192.0.2.3:3"))
		held, _ := connect(t, k, addr("192.0.2.4:4"))
		connect(t, k, addr("192.0.2.5:5")) // one too many
		defer keepalive.Of(held).Hold()()
		_, err := keepalive.Of(slow).SetTimeout(time.Hour)
		require.NoError(t, err)
		time.Sleep(3 * time.Second)
		require.NoError(t, local.Close())
		time.Sleep(8 * time.Second)

		s := see(t, h)
		require.Equal(t, "gateway", s.Name)
		require.InDelta(t, 11, s.Uptime, 0.001)
		require.Equal(t, 2, s.Connections.Open)
		require.EqualValues(t, 4, s.Connections.Opened)
		require.Equal(t, Refused{Full: 1}, s.Connections.Refused)
		require.EqualValues(t, 1, s.Connections.Closed["idle"])
		require.EqualValues(t, 1, s.Connections.Closed["local"])
		require.Len(t, s.Connections.Closed, len(keepalive.Reasons()))
		require.Len(t, s.Connections.WouldClose, len(keepalive.Reasons()))
		require.Equal(t, 0.01, s.Wheel.Tick)
		require.EqualValues(t, 1, s.Wheel.Late.Count)
		require.EqualValues(t, 2, s.Ages.Count)
		require.Equal(t, 10.0, s.Settings["timeout_seconds"])
		require.Equal(t, "reject", s.Settings["full"])
		require.EqualValues(t, 2, s.Ended)

		require.Len(t, s.Recent, 2)
		require.Equal(t, "192.0.2.1:1", s.Recent[0].Addr)
		require.Equal(t, "idle", s.Recent[0].Reason)
		require.InDelta(t, 10, s.Recent[0].Age, 0.21)
		require.EqualValues(t, 2, s.Recent[0].Number)
		require.Equal(t, "local", s.Recent[1].Reason)
		require.InDelta(t, 3, s.Recent[1].Age, 0.001)

		require.Len(t, s.Idlest, 2)
		for _, idle := range s.Idlest {
			require.InDelta(t, 11, idle.Age, 0.001)
			require.InDelta(t, 11, idle.Idle, 0.21)
			switch idle.Addr {
			case "192.0.2.3:3":
				require.Equal(t, 3600.0, idle.Timeout)
				require.InDelta(t, 3589, *idle.Left, 0.5)
				require.Equal(t, "idle", idle.Ends)
			case "192.0.2.4:4":
				require.True(t, idle.Held)
				require.Nil(t, idle.Left)
			default:
				require.Fail(t, idle.Addr)
			}
		}
		filed := 0
		for _, level := range s.Wheel.Levels {
			require.Less(t, level.Hand, len(level.Slots))
			for _, n := range level.Slots {
				filed += n
			}
		}
		require.Equal(t, s.Wheel.Pending, filed)
		require.InDelta(t, 0.01, s.Wheel.Levels[0].Span, 1e-9)
		require.InDelta(t, 5.12, s.Wheel.Levels[1].Span, 1e-9, "a revolution of the first level")
		require.NotNil(t, s.Advice)
		require.Len(t, s.Advice.Silences, 13)
		require.EqualValues(t, 1, s.Advice.Silences[8].Count) // the closed one, not the held one
		require.Len(t, s.Reasons, 16)
	})
}

func TestASnapshotHasTheEventStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		streams, err := ssekeepalive.New(ssekeepalive.Config{})
		require.NoError(t, err)
		defer streams.Close()
		h := newHandler(t, newKeeper(t, keepalive.Config{}), Config{Streams: streams})
		none := newHandler(t, newKeeper(t, keepalive.Config{}), Config{})
		require.Nil(t, none.take().Streams)
		require.Equal(t, &Streams{}, h.take().Streams)
		streams.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.(http.Flusher).Flush()
			time.Sleep(40 * time.Second)
			_, _ = w.Write([]byte("data: half an event"))
			time.Sleep(10 * time.Second)
			require.Equal(t, &Streams{Open: 1, Comments: 2, Withheld: 1}, h.take().Streams)
		})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
		require.Equal(t, &Streams{Comments: 2, Withheld: 1}, h.take().Streams)

		_, err = New(newKeeper(t, keepalive.Config{}), Config{Streams: new(ssekeepalive.Streams)})
		require.ErrorIs(t, err, ErrArgument)
		require.ErrorContains(t, err, "Streams, must be from ssekeepalive.New")
	})
}

// What a program reads is what this package has written: no field is lost, or has
// another name than the documentation says.
func TestTheJSONHasStableNames(t *testing.T) {
	k := newKeeper(t, keepalive.Config{Age: keepalive.Age{Max: time.Hour, Jitter: math.Inf(-1)}, Advise: true})
	c, _ := connect(t, k, addr("192.0.2.1:1"))
	connect(t, k, addr("192.0.2.2:1"))
	streams, err := ssekeepalive.New(ssekeepalive.Config{})
	require.NoError(t, err)
	defer streams.Close()
	h := newHandler(t, k, Config{Streams: streams})
	require.NoError(t, c.Close())

	requireStableNames[Snapshot](t, ask(h, from(local, "localhost")).Body.Bytes())
}

func TestTheJSONOfConnectionsHasStableNames(t *testing.T) {
	k := newKeeper(t, keepalive.Config{})
	h := newHandler(t, k, Config{})
	connectMany(t, k, 2)
	for _, query := range []string{"", "state=closed"} {
		requireStableNames[Listing](t, asked(h, query).Body.Bytes())
	}
}

// requireStableNames requires a JSON without a loss from that of S, and all its names in the documentation.
func requireStableNames[S any](t *testing.T, body []byte) {
	t.Helper()
	strict := json.NewDecoder(bytes.NewReader(body))
	strict.DisallowUnknownFields()
	var s S
	require.NoError(t, strict.Decode(&s))
	again, err := json.Marshal(s)
	require.NoError(t, err)
	require.JSONEq(t, string(body), string(again))

	var doc []byte
	for _, file := range []string{"snapshot.go", "listing.go", "settings.go"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		doc = append(doc, text...)
	}
	var fields map[string]any
	require.NoError(t, json.Unmarshal(body, &fields))
	eachName(fields, func(name string) {
		require.Equal(t, strings.ToLower(name), name)
		require.Regexp(t, `\b`+name+`\b`, string(doc), "not documented")
	})
}

// eachName calls f with each name of a field, but for those of reasons.
func eachName(v any, f func(name string)) {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			f(name)
			if name != "closed" && name != "would_close" {
				eachName(value, f)
			}
		}
	case []any:
		for _, value := range v {
			eachName(value, f)
		}
	}
}

func TestRecentEndsAreTheLastOnes(t *testing.T) {
	k := newKeeper(t, keepalive.Config{})
	few, none := newHandler(t, k, Config{Recent: 3}), newHandler(t, k, Config{Recent: -1})
	for i := range 8 {
		c, _ := connect(t, k, addr(fmt.Sprint("host", i)))
		require.NoError(t, c.Close())
	}
	s := see(t, few)
	require.EqualValues(t, 8, s.Ended)
	var seen []string
	for _, e := range s.Recent {
		seen = append(seen, fmt.Sprint(e.Number, " ", e.Addr))
	}
	require.Equal(t, []string{"8 host7", "7 host6", "6 host5"}, seen)
	require.Empty(t, see(t, none).Recent)
	require.EqualValues(t, 8, see(t, none).Ended)
}

func TestASnapshotServesAllWhoAskInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, keepalive.Config{Timeout: time.Hour})
		defer k.Close()
		h := newHandler(t, k, Config{})
		first := see(t, h)
		connect(t, k, addr("x"))
		time.Sleep(199 * ms)
		require.Equal(t, first, see(t, h))
		time.Sleep(2 * ms)
		require.Equal(t, 1, see(t, h).Connections.Open)
	})
}

func TestManyWhoAskAtOnceHaveOneSnapshotTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c cache
		var taken atomic.Int32
		var viewers sync.WaitGroup
		for range 100 {
			viewers.Go(func() {
				body, err := c.get(t.Context(), func() ([]byte, time.Duration, error) {
					taken.Add(1)
					time.Sleep(time.Second)
					return []byte("body"), time.Second, nil
				})
				require.NoError(t, err)
				require.Equal(t, "body", string(body))
			})
		}
		viewers.Wait()
		require.EqualValues(t, 1, taken.Load())

		// What was expensive serves for longer.
		time.Sleep(19 * time.Second)
		_, err := c.get(t.Context(), func() ([]byte, time.Duration, error) { panic("not yet") })
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.Panics(t, func() {
			_, _ = c.get(t.Context(), func() ([]byte, time.Duration, error) { panic("now") })
		})
		_, err = c.get(t.Context(), nil)
		require.ErrorContains(t, err, "panicked")
	})
}

// A slow look for the idlest is not repeated with each snapshot.
func TestTheIdlestAreLookedForAtAPaceOfTheirOwn(t *testing.T) {
	k := newKeeper(t, keepalive.Config{})
	h := newHandler(t, k, Config{})
	connect(t, k, addr("x"))
	_, _, err := h.encoded()
	require.NoError(t, err)
	was := h.look.at
	require.True(t, h.look.fresh.After(was))
	connect(t, k, addr("y"))
	h.look.fresh = time.Now().Add(time.Hour) // it took three minutes
	var s Snapshot
	body, _, err := h.encoded()
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(body, &s))
	require.Equal(t, 2, s.Connections.Open)
	require.Len(t, s.Idlest, 1)
	require.True(t, was.Equal(s.IdlestAt))

	h.look.fresh = time.Time{}
	_, _, err = h.encoded()
	require.NoError(t, err)
	require.Len(t, h.look.idlest, 2)
}

func TestClosePutsAnEndToWatchingAndAnswers(t *testing.T) {
	k := newKeeper(t, keepalive.Config{})
	h := newHandler(t, k, Config{})
	c, _ := connect(t, k, addr("before"))
	require.NoError(t, c.Close())
	require.EqualValues(t, 1, see(t, h).Ended)

	require.NoError(t, h.Close())
	require.NoError(t, h.Close())
	c, _ = connect(t, k, addr("after"))
	require.NoError(t, c.Close())
	_, seen := h.recent.list()
	require.EqualValues(t, 1, seen)
	for _, format := range []string{"html", "json"} {
		r := from(local, "localhost")
		r.URL.RawQuery = "format=" + format
		w := ask(h, r)
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.Contains(t, w.Body.String(), "debughttp: closed")
	}
}

func TestAClosedKeeperIsStillShown(t *testing.T) {
	k := newKeeper(t, keepalive.Config{})
	h := newHandler(t, k, Config{})
	c, _ := connect(t, k, addr("x"))
	require.NoError(t, c.Close())
	connect(t, k, addr("y"))
	require.NoError(t, k.Close())
	s := see(t, h)
	require.Zero(t, s.Connections.Open)
	require.Empty(t, s.Idlest)
	require.Len(t, s.Recent, 1)
}

// An adapter with a hanging event loop must not block the page, nor collect waiting goroutines.
func TestAConnectionThatDoesNotAnswerHasNoTraffic(t *testing.T) {
	k := newKeeper(t, keepalive.Config{})
	h := newHandler(t, k, Config{})
	s := &silent{stuck: stuck{asked: make(chan struct{}, 1000), release: make(chan struct{})}}
	defer func() {
		close(s.release)
		require.Eventually(t, func() bool { return len(h.asking) == 0 }, time.Minute, ms)
	}()
	require.NoError(t, s.guardWith(k))
	for range 2 * maxAsking {
		l := listed(t, h, "")
		require.Len(t, l.Connections, 1)
		require.Nil(t, l.Connections[0].Received)
		require.Nil(t, l.Connections[0].RoundTrip)
	}
	require.Len(t, s.asked, maxAsking)
}

func TestAConnectionThatPanicsHasNoTraffic(t *testing.T) {
	k := newKeeper(t, keepalive.Config{})
	h := newHandler(t, k, Config{Label: func(any) string { panic("harms nobody") }})
	s := &silent{}
	require.NoError(t, s.guardWith(k))
	require.Equal(t, "", see(t, h).Idlest[0].Addr)
	row := listed(t, h, "").Connections[0]
	require.Nil(t, row.Received)
	require.Empty(t, row.Label)
	require.Eventually(t, func() bool { return len(h.asking) == 0 }, time.Minute, ms)
}

// Viewers, short connections, and Close, all at once and for real.
func TestViewersAndChurnAtTheSameTime(t *testing.T) {
	k := newKeeper(t, keepalive.Config{Timeout: 100 * ms, Tick: 10 * ms, Advise: true})
	h := newHandler(t, k, Config{HideAddrs: true})
	s := httptest.NewServer(h)
	defer s.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	guarded := k.Listener(ln)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := guarded.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				_, _ = io.Copy(io.Discard, c)
				c.Close()
			})
		}
	})
	stop := time.Now().Add(time.Second)
	for range 8 {
		all.Go(func() {
			for time.Now().Before(stop) {
				c, err := net.Dial("tcp", ln.Addr().String())
				if err != nil {
					continue
				}
				fmt.Fprintln(c, "hello")
				time.Sleep(5 * ms)
				c.Close()
			}
		})
		all.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for time.Now().Before(stop) {
				resp, err := client.Get(s.URL + "?format=json")
				if err != nil {
					continue
				}
				var s Snapshot
				if json.NewDecoder(resp.Body).Decode(&s) == nil && s.Connections.Opened < s.Ended {
					t.Errorf("%d opened, %d ended", s.Connections.Opened, s.Ended)
				}
				resp.Body.Close()
			}
		})
	}
	time.Sleep(900 * ms)
	require.NoError(t, h.Close())
	time.Sleep(time.Until(stop))
	ln.Close()
	all.Wait()
	_, seen := h.recent.list()
	require.Positive(t, seen)
}

func TestSettingsOfAPolicyThatIsOffAreOff(t *testing.T) {
	cfg := keepalive.Config{Age: keepalive.Age{Jitter: 0.5}, Probe: keepalive.Probing{Count: 2}} // a jitter of no age, and a count of no probe
	s := see(t, newHandler(t, newKeeper(t, cfg), Config{})).Settings
	for _, name := range []string{
		"probe", "probe_after_seconds", "probe_timeout_seconds", "probe_count", "max_age_seconds", "max_age_jitter", "max_age_grace_seconds", "strikes",
		"full", "evict_min_idle_seconds", "pressure_timeout_seconds", "pressure_low", "pressure_high", "farewell_timeout_seconds",
	} {
		require.Contains(t, s, name)
		require.Zero(t, s[name], name)
	}
	cfg = keepalive.Config{
		Age: keepalive.Age{Max: time.Hour, Jitter: 0.5}, Probe: keepalive.Probing{Send: func(any) error { return nil }},
		Rate: keepalive.Rate{MinBytes: 10}, Room: keepalive.Room{MaxConns: 1, Pressure: keepalive.Pressure{Timeout: time.Second}},
		Closing: keepalive.Closing{Mode: keepalive.CloseHalf},
	}
	h := newHandler(t, newKeeper(t, cfg), Config{})
	require.Contains(t, ask(h, from(local, "localhost")).Body.String(), `"settings":{"timeout_seconds":60,"tick_seconds":0.01,"activity":"read",`, "in the order of the page")
	on := see(t, h).Settings
	for name, want := range map[string]any{
		"probe": true, "probe_after_seconds": 30.0, "probe_timeout_seconds": 30.0, "probe_count": 1.0, "max_age_seconds": 3600.0, "max_age_jitter": 0.5, "strikes": 3.0,
		"min_rate_bytes_per_second": 10.0, "full": "reject", "pressure_timeout_seconds": 1.0, "pressure_low": 0.85, "pressure_high": 0.95, "farewell_timeout_seconds": 1.0,
	} {
		require.Equal(t, want, on[name], name)
	}
}
