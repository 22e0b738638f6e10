package httpcall

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/callback"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
)

// here allows what tests listen on.
var here = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

var task = timeout.Task{
	Topic: "orders", ID: "a.b/ü", Payload: []byte(`{"paid": false}`),
	Due: time.UnixMilli(1_700_000_000_123), Version: 12, Attempts: 2,
}

var token = timeout.Token{Key: task.Key(), Lease: 99, Part: "p"}

func open(t *testing.T, cfg Config) *Caller {
	c, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func serve(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server
}

func to(url string) timeout.Callback { return timeout.Callback{Kind: Kind, Target: url} }

func TestATargetGetsThePayloadAndAllThatIsPromised(t *testing.T) {
	secret := []byte(strings.Repeat("s", 24))
	type seen struct {
		r    *http.Request
		body []byte
	}
	got := make(chan seen, 1)
	server := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- seen{r, body}
	})
	c := open(t, Config{Allow: here, Secrets: [][]byte{secret}})
	call := to(strings.Replace(server.URL, "http://", "http://user:pass@", 1) + "/hook?x=1#fragment")
	call.Header = map[string]string{"x-Shop": "7", "TraceParent": "the task's wins"}
	task := task
	task.Trace = map[string]string{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "a=1", "baggage": "user=7"}
	require.NoError(t, c.Check(call))
	require.NoError(t, c.Call(timeout.WithToken(t.Context(), token), task, call))

	s := <-got
	require.Equal(t, "POST", s.r.Method)
	require.Equal(t, "/hook?x=1", s.r.RequestURI)
	require.Equal(t, strings.TrimPrefix(server.URL, "http://"), s.r.Host)
	require.Equal(t, task.Payload, s.body)
	h := s.r.Header
	for name, want := range map[string]string{
		"Content-Type": "application/json", "Content-Length": "15", "User-Agent": "Heartwheel", "X-Shop": "7",
		"Authorization": "Basic dXNlcjpwYXNz", "Idempotency-Key": "orders/a%2Eb%2F%C3%BC:12", "Webhook-Id": "orders/a%2Eb%2F%C3%BC:12",
		"Heartwheel-Topic": "orders", "Heartwheel-Id": "a%2Eb%2F%C3%BC", "Heartwheel-Version": "12",
		"Heartwheel-Attempt": "2", "Heartwheel-Due": "1700000000123", "Heartwheel-Token": token.String(),
		"Traceparent": task.Trace["traceparent"], "Tracestate": "a=1", "Baggage": "user=7",
	} {
		require.Equal(t, []string{want}, h.Values(name), name)
	}
	require.NoError(t, Verify(h, s.body, time.Now(), time.Minute, secret))
	m, err := callback.Parse(h.Get)
	require.NoError(t, err)
	require.Equal(t, callback.Message{
		Key: "orders/a%2Eb%2F%C3%BC:12", Topic: "orders", ID: "a.b/ü", Version: 12, Attempt: 2, Due: task.Due, Trace: task.Trace, Token: token,
	}, m)
}

func TestTheBodyIsThatOfTheMethod(t *testing.T) {
	type seen struct{ method, kind, body, length string }
	got := make(chan seen, 1)
	server := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- seen{r.Method, r.Header.Get("Content-Type"), string(body), r.Header.Get("Content-Length")}
	})
	c := open(t, Config{Allow: here})
	for _, test := range []struct {
		method, header, payload string
		want                    seen
	}{
		{"", "", "{}", seen{"POST", "application/json", "{}", "2"}},
		{"POST", "", "{", seen{"POST", "application/octet-stream", "{", "1"}},
		{"POST", "", "\"\xff\"", seen{"POST", "application/octet-stream", "\"\xff\"", "3"}},
		{"PUT", "text/plain", "{}", seen{"PUT", "text/plain", "{}", "2"}},
		{"POST", "", "", seen{"POST", "", "", "0"}},
		{"DELETE", "", "", seen{"DELETE", "", "", ""}},
		{"GET", "", "{}", seen{"GET", "", "", ""}},
		{"HEAD", "", "{}", seen{"HEAD", "", "", ""}},
	} {
		call := to(server.URL)
		call.Method = test.method
		if test.header != "" {
			call.Header = map[string]string{"content-type": test.header}
		}
		require.NoError(t, c.Call(t.Context(), timeout.Task{Topic: "t", ID: "1", Payload: []byte(test.payload)}, call))
		require.Equal(t, test.want, <-got)
	}
}

func TestAPathThatIsMissingHoldsUpNoOtherOfItsHost(t *testing.T) {
	var good atomic.Int64
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/good" {
			good.Add(1)
			return
		}
		w.WriteHeader(http.StatusNotFound)
	})
	store, err := memory.New(memory.Config{})
	require.NoError(t, err)
	defer store.Close()
	center, err := timeout.New(store, timeout.Config{
		Callers: map[string]timeout.Caller{Kind: open(t, Config{Allow: here})}, CircuitWait: time.Hour, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	defer center.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- center.Run(ctx) }()
	defer func() { cancel(); <-ran }()
	for _, topic := range []string{"bad", "good"} {
		call := to(server.URL + "/" + topic)
		_, err = center.SetTopic(t.Context(), timeout.Topic{Name: topic, Callback: &call, Retries: 2, Backoff: time.Millisecond})
		require.NoError(t, err)
		tasks := make([]timeout.Task, 200)
		for i := range tasks {
			tasks[i] = timeout.Task{Topic: topic, ID: strconv.Itoa(i)}
		}
		_, err = center.SetAll(t.Context(), tasks)
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			counts, err := center.Count(t.Context(), topic)
			return err == nil && counts.Pending+counts.Running == 0
		}, time.Minute, 5*time.Millisecond, topic)
	}
	require.EqualValues(t, 200, good.Load())
	require.Empty(t, center.OpenCircuits())
}

func TestTheAnswerDecidesWhatBecomesOfTheTask(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var status int
		fmt.Sscan(r.URL.Path[1:], &status)
		for name, value := range r.URL.Query() {
			w.Header().Set(name, value[0])
		}
		w.WriteHeader(status)
		io.WriteString(w, "because\n"+strings.Repeat("x", 1000))
	})
	c := open(t, Config{Allow: here, MaxRetryAfter: time.Minute})
	const never = time.Duration(-1)
	for _, test := range []struct {
		answer           string
		permanent, fails bool
		after            time.Duration
	}{
		{"200", false, false, never},
		{"202", false, false, never}, // many say it and mean no more
		{"204", false, false, never},
		{"299", false, false, never},
		{"300", true, true, never},
		{"301?Location=http://169.254.169.254/", true, true, never},
		{"302", true, true, never},
		{"307?Location=%zz", true, true, never},
		{"308?Retry-After=5", true, true, never},
		{"400", false, true, never},
		{"401", false, true, never},
		{"403", false, true, never},
		{"404", false, true, never},
		{"404?Retry-After=5", false, true, 5 * time.Second},
		{"409", false, true, never},
		{"409?Retry-After=Wed,+21+Oct+2015+08:28:30+GMT&Date=Wed,+21+Oct+2015+07:28:00+GMT", false, true, time.Minute},
		{"410", true, true, never},
		{"410?Retry-After=5", true, true, never},
		{"422?Retry-After=5", true, true, never}, // the callback lists it
		{"507", true, true, never},               // and this
		{"408", false, true, never},
		{"425", false, true, never},
		{"429", false, true, never},
		{"429?Retry-After=5", false, true, 5 * time.Second},
		{"503?Retry-After=3600", false, true, time.Minute},
		{"503?Retry-After=99999999999999999999999", false, true, time.Minute},
		{"503?Retry-After=0", false, true, never},
		{"503?Retry-After=1", false, true, time.Second},
		{"503?Retry-After=Wed,+21+Oct+2015+07:28:00+GMT&Date=Wed,+21+Oct+2015+07:28:00+GMT", false, true, never},
		{"503?Retry-After=Wed,+21+Oct+2015+07:28:30+GMT&Date=yesterday", false, true, never}, // it was years ago
		{"503?Retry-After=soon", false, true, never},
		{"503?Retry-After=Wed,+21+Oct+2015+07:28:30+GMT&Date=Wed,+21+Oct+2015+07:28:00+GMT", false, true, 30 * time.Second},
		{"500", false, true, never},
		{"502", false, true, never},
		{"504", false, true, never},
		{"599", false, true, never},
		{"799", false, true, never},
	} {
		t.Run(test.answer, func(t *testing.T) {
			call := to(server.URL + "/" + test.answer)
			call.Final = []int{507, 422}
			err := c.Call(t.Context(), task, call)
			require.Equal(t, test.fails, err != nil, "%v", err)
			require.Equal(t, test.permanent, errors.Is(err, timeout.ErrPermanent))
			lives := strings.Contains("300 301 302 307 308 400 401 403 404 409 410 422 425", test.answer[:3])
			require.Equal(t, lives, errors.Is(err, timeout.ErrAnswered))
			require.Equal(t, test.answer[:3] == "429", errors.Is(err, timeout.ErrUncounted))
			after, has := timeout.RetryDelay(err)
			require.Equal(t, test.after != never, has, "%v", err)
			if has {
				require.Equal(t, test.after, after)
			}
			if test.fails {
				require.ErrorContains(t, err, "answer "+test.answer[:3])
				require.Less(t, len(err.Error()), engine.MaxError)
				require.NotContains(t, err.Error(), "\n")
				require.ErrorContains(t, err, `"because\nxxx`)
			}
		})
	}
	err := c.Call(t.Context(), task, to(server.URL+"/301?Location=http://169.254.169.254/"))
	require.ErrorContains(t, err, "http://169.254.169.254/")
}

func TestAcceptedIsForThoseWhoAskForIt(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(map[string]int{"/202": 202, "/200": 200}[r.URL.Path])
	})
	c := open(t, Config{Allow: here})
	for prefer, async := range map[string]bool{
		"respond-async": true, "wait=10, Respond-Async": true, "respond-async; x=y, wait=1": true,
		"": false, "wait=10": false, "no-respond-async": false,
	} {
		call := to(server.URL + "/202")
		call.Header = map[string]string{"prefer": prefer}
		err := c.Call(t.Context(), task, call)
		require.Equal(t, async, errors.Is(err, timeout.ErrAccepted), "%q: %v", prefer, err)
		require.Equal(t, async, err != nil)
		call.Target = server.URL + "/200"
		require.NoError(t, c.Call(t.Context(), task, call), "done already")
	}
}

func TestARedirectToLoopbackLeadsNowhere(t *testing.T) {
	var hits atomic.Int32
	inside := serve(t, func(http.ResponseWriter, *http.Request) { hits.Add(1) })
	outside := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, inside.URL, http.StatusTemporaryRedirect)
	})
	c := open(t, Config{Allow: here})
	require.ErrorIs(t, c.Call(t.Context(), task, to(outside.URL)), timeout.ErrPermanent)
	require.Zero(t, hits.Load())
}

func TestTLSIsCheckedAndHTTP2Used(t *testing.T) {
	protocols := make(chan string, 100)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		protocols <- fmt.Sprint(r.Proto, " ", r.Header.Get(callback.HeaderKey))
	}))
	server.Config.ErrorLog = quiet
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	stranger := open(t, Config{Allow: here})
	err := stranger.Call(t.Context(), task, to(server.URL))
	var unknown x509.UnknownAuthorityError
	require.ErrorAs(t, err, &unknown)
	require.NotErrorIs(t, err, timeout.ErrPermanent, "certificates are mended")
	require.Empty(t, protocols)

	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	c := open(t, Config{Allow: here, TLS: &tls.Config{RootCAs: roots}})
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { require.NoError(t, c.Call(t.Context(), task, to(server.URL))) })
	}
	wg.Wait()
	require.Equal(t, "HTTP/2.0 "+callback.Key(task), <-protocols)
}

func TestConnectionsAreUsedAgainAndBounded(t *testing.T) {
	var now, most, kept, refused atomic.Int32
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		time.Sleep(time.Millisecond)
		now.Add(-1)
		w.Write(make([]byte, 1<<10))
	})
	// net/http drops a connection if its writer reports the request 50 ms late. So the number of
	// connections is no measure on a busy machine.
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{PutIdleConn: func(err error) {
		if err != nil {
			refused.Add(1)
			return
		}
		kept.Add(1)
	}})
	c := open(t, Config{Allow: here, MaxPerHost: 3})
	var wg sync.WaitGroup
	for range 30 {
		wg.Go(func() {
			for range 10 {
				require.NoError(t, c.Call(ctx, task, to(server.URL)))
			}
		})
	}
	wg.Wait()
	require.Zero(t, refused.Load(), "there is room for each idle connection")
	require.Greater(t, kept.Load(), int32(150), "of 300")
	require.LessOrEqual(t, most.Load(), int32(3))
}

func TestAnAttemptIsOneCallEvenWhereTheConnectionBreaks(t *testing.T) {
	var hits atomic.Int32
	var broken atomic.Bool
	server := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		hits.Add(1)
		if broken.Load() {
			panic(http.ErrAbortHandler)
		}
	})
	c := open(t, Config{Allow: here})
	for _, payload := range []string{"{}", ""} {
		broken.Store(false)
		hits.Store(0)
		small := timeout.Task{Topic: "t", ID: "1", Payload: []byte(payload)}
		var wg sync.WaitGroup
		for range 5 { // several connections, idle afterwards
			wg.Go(func() { require.NoError(t, c.Call(t.Context(), small, to(server.URL))) })
		}
		wg.Wait()
		broken.Store(true)
		hits.Store(0)
		err := c.Call(t.Context(), small, to(server.URL))
		require.Error(t, err)
		require.NotErrorIs(t, err, timeout.ErrPermanent)
		require.EqualValues(t, 1, hits.Load())
	}
}

func TestWhatHasGoneWrongIsSaidWithoutSecrets(t *testing.T) {
	c := open(t, Config{Allow: here})
	err := c.Call(t.Context(), task, to("http://user:hunter2@127.0.0.1:1/hunter2?key=hunter2")) // nobody listens there
	require.ErrorContains(t, err, "connection refused")
	require.ErrorContains(t, err, "POST http://127.0.0.1:1")
	require.NotErrorIs(t, err, timeout.ErrPermanent)
	for _, bad := range []string{"http://user:hunter2@127.0.0.1:x/", "http://user:hunter2@\x7f/", "ftp://user:hunter2@host/", "http://user:hunter2@/"} {
		err = c.Call(t.Context(), task, to(bad))
		require.ErrorIs(t, err, timeout.ErrPermanent)
		require.ErrorIs(t, err, timeout.ErrArgument)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

func TestCloseEndsTheCallsThatRunAndAllLater(t *testing.T) {
	begun := make(chan struct{})
	server := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		close(begun)
		<-r.Context().Done()
	})
	c := open(t, Config{Allow: here})
	done := make(chan error, 1)
	go func() { done <- c.Call(t.Context(), task, to(server.URL)) }()
	<-begun
	closed := time.Now()
	require.NoError(t, c.Close())
	require.Less(t, time.Since(closed), defaultTimeout/2)
	require.ErrorIs(t, <-done, timeout.ErrClosed)
	require.ErrorIs(t, c.Call(t.Context(), task, to(server.URL)), timeout.ErrClosed)
	require.NoError(t, c.Close())
}

func TestTheContextOfTheLeaseEndsTheCall(t *testing.T) {
	server := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	})
	c := open(t, Config{Allow: here})
	lost := errors.New("lease lost")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(20*time.Millisecond, func() { cancel(lost) })
	err := c.Call(ctx, task, to(server.URL))
	require.ErrorIs(t, err, lost)

	call := to(server.URL)
	call.Timeout = 30 * time.Millisecond
	err = c.Call(t.Context(), task, call)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "no answer within 30ms")
	require.NotErrorIs(t, err, timeout.ErrPermanent)
}

func TestAConfigThatMakesNoSenseIsRefusedByName(t *testing.T) {
	for name, cfg := range map[string]Config{
		"Secrets[1]":    {Secrets: [][]byte{make([]byte, 24), make([]byte, 23)}},
		"Allow":         {Allow: []netip.Prefix{{}}},
		"Allow ::ffff":  {Allow: []netip.Prefix{netip.MustParsePrefix("::ffff:127.0.0.0/104")}},
		"Hosts":         {Hosts: []string{"http://x"}},
		"Timeout":       {Timeout: -1},
		"MaxRetryAfter": {MaxRetryAfter: -1},
		"MaxResponse":   {MaxResponse: -1},
		"MaxPerHost":    {MaxPerHost: -1},
		"UserAgent":     {UserAgent: "a\r\nb: c"},
	} {
		_, err := New(cfg)
		require.ErrorIs(t, err, timeout.ErrArgument)
		require.ErrorContains(t, err, name)
	}
}
