package timeoutclient

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// clientOf returns a client of a server.
func clientOf(t *testing.T, server http.HandlerFunc) *Client {
	s := httptest.NewServer(server)
	t.Cleanup(s.Close)
	c, err := New(s.URL, Config{Token: "secret-0123456789"})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// A proxy with a page of its own, or a server of another kind, has done nothing.
func TestAnAnswerOfAnotherServerIsAnError(t *testing.T) {
	for _, body := range []string{"", "<html>Log in, please</html>"} {
		c := clientOf(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) })
		require.ErrorContains(t, c.DropTopic(t.Context(), "t"), "200 OK")
		_, err := c.Remove(t.Context(), engine.Key{Topic: "t", ID: "a"})
		require.ErrorContains(t, err, "the answer makes no sense")
	}

	for _, body := range []string{"{}", "null", `{"status":"ok"}`} {
		c := clientOf(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) })
		_, err := c.Set(t.Context(), engine.Task{Topic: "t", ID: "a"})
		require.ErrorContains(t, err, "the answer makes no sense")
		_, err = c.Get(t.Context(), engine.Key{Topic: "t", ID: "a"})
		require.ErrorContains(t, err, "the answer makes no sense")
	}

	c := clientOf(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusPreconditionFailed)
		_, _ = w.Write([]byte(`{"title":"Precondition Failed","status":412,"detail":"this site asks for a precondition"}`))
	})
	var told *Error
	_, err := c.Set(t.Context(), engine.Task{Topic: "t", ID: "a", IfAbsent: true})
	require.ErrorAs(t, err, &told)
	require.Equal(t, http.StatusPreconditionFailed, told.Status)
	require.ErrorContains(t, err, "this site asks for a precondition")
	_, err = c.Remove(t.Context(), engine.Key{Topic: "t", ID: "a"})
	require.ErrorAs(t, err, &told)
}

// JSON has no bytes that are no UTF-8: an encoder writes U+FFFD for them, and that is another task's id.
func TestABatchNamesNoOtherTasks(t *testing.T) {
	var asked atomic.Int32
	c := clientOf(t, func(http.ResponseWriter, *http.Request) { asked.Add(1) })
	good, bad := engine.Key{Topic: "t", ID: "a"}, engine.Key{Topic: "t", ID: "a\xff"}
	for name, call := range map[string]func() error{
		"SetAll": func() error {
			_, err := c.SetAll(t.Context(), []engine.Task{{Topic: "t", ID: "a"}, {Topic: "t", ID: "a\xff"}})
			return err
		},
		"MoveAll": func() error {
			_, err := c.MoveAll(t.Context(), []engine.Move{{Key: good}, {Key: bad}})
			return err
		},
		"RemoveAll": func() error {
			_, err := c.RemoveAll(t.Context(), []engine.Removal{{Key: good}, {Key: bad}})
			return err
		},
		"Replay": func() error { _, err := c.Replay(t.Context(), []engine.Key{good, bad}); return err },
		"GetAll": func() error { _, err := c.GetAll(t.Context(), []engine.Key{good, bad}); return err },
	} {
		err := call()
		require.ErrorIs(t, err, engine.ErrArgument, name)
		require.ErrorContains(t, err, `[1]: `, name)
	}
	_, err := c.MoveAll(t.Context(), []engine.Move{{Key: good, Due: time.UnixMilli(1), Version: 7}})
	require.ErrorIs(t, err, engine.ErrUnsupported)
	require.Zero(t, asked.Load())
}

func TestAddressesOfServers(t *testing.T) {
	for _, address := range []string{
		"", "127.0.0.1:8077", "ftp://x", "http:x", "http://", "http://x?", "http://x?a=b", "http://x#a", "http://user:hunter2@x", "http://user:hunter2%zz@x", "https://x?hunter2",
	} {
		_, err := New(address, Config{})
		require.ErrorIs(t, err, engine.ErrArgument, address)
		require.NotContains(t, err.Error(), "hunter2", "a password is for no log")
	}
	for address, base := range map[string]string{
		"http://x": "http://x", "HTTP://x/": "http://x", "http://x/a%2Fb/": "http://x/a%2Fb", "https://[::1]:8077": "https://[::1]:8077",
	} {
		c, err := New(address, Config{})
		require.NoError(t, err, address)
		require.Equal(t, base, c.base)
	}
}

// Many callers at a time keep their connections.
func TestCallersKeepTheirConnections(t *testing.T) {
	const callers = 32
	var kept, refused atomic.Int32
	var all sync.WaitGroup // those of a round: they are under way at the same time
	c := clientOf(t, func(w http.ResponseWriter, _ *http.Request) {
		all.Done()
		all.Wait()
		_, _ = w.Write([]byte(`{"topics":[]}`))
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
	for range 3 {
		all.Add(callers)
		errs := make(chan error, callers)
		for range callers {
			go func() { _, err := c.Topics(ctx); errs <- err }()
		}
		var err error
		for range callers {
			err = errors.Join(err, <-errs)
		}
		require.NoError(t, err)
	}
	require.Zero(t, refused.Load(), "there is room for each idle connection")
	require.Greater(t, kept.Load(), int32(callers), "of three rounds")
}

// Nothing is due before the time that was said.
func TestTimesAreRoundedUp(t *testing.T) {
	due := time.Date(2099, 1, 2, 3, 4, 5, 6_000_001, time.UTC)
	var got atomic.Value
	c := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		body := make([]byte, 1000)
		n, _ := r.Body.Read(body)
		got.Store(string(body[:n]))
		_, _ = w.Write([]byte(`{"was":"none","changed":true,"answers":[{"was":"none","changed":true}]}`))
	})
	_, err := c.Set(t.Context(), engine.Task{Topic: "t", ID: "a", Due: due})
	require.NoError(t, err)
	require.Contains(t, got.Load(), `"due":"2099-01-02T03:04:05.007Z"`)
	_, err = c.Move(t.Context(), engine.Key{Topic: "t", ID: "a"}, due)
	require.NoError(t, err)
	require.Contains(t, got.Load(), `"due":"2099-01-02T03:04:05.007Z"`)
	_, err = c.Move(t.Context(), engine.Key{Topic: "t", ID: "a"}, due.Add(-1))
	require.NoError(t, err)
	require.Contains(t, got.Load(), `"due":"2099-01-02T03:04:05.006Z"`)
}

// A program may have put something else into the place of net/http's transport.
func TestTheTransportOfTheProgramIsTaken(t *testing.T) {
	usual := http.DefaultTransport
	t.Cleanup(func() { http.DefaultTransport = usual })
	http.DefaultTransport = http.NewFileTransport(http.Dir(t.TempDir()))
	c, err := New("http://x", Config{})
	require.NoError(t, err)
	_, err = c.Topics(t.Context())
	var told *Error
	require.ErrorAs(t, err, &told)
	require.Equal(t, http.StatusNotFound, told.Status)
	require.NotErrorIs(t, err, engine.ErrNotFound)
}
