package gnetkeepalive

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/rlimit"
	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/httpkeepalive"
)

// silentApp is an app without last words of its own.
type silentApp struct {
	gnet.BuiltinEventEngine
	app *app
}

func (s *silentApp) OnBoot(eng gnet.Engine) gnet.Action { return s.app.OnBoot(eng) }

// fullEngine starts an engine without room for more than its first connection.
func fullEngine(t *testing.T, cfg keepalive.Config) (*engine, *keepalive.Keeper) {
	cfg.Timeout, cfg.Tick, cfg.Room.MaxConns = time.Hour, 10*ms, 1
	k := newKeeper(t, cfg)
	boots := &app{booted: make(chan booted, 1)}
	e := run(t, "tcp://127.0.0.1:0", boots, Wrap(&silentApp{app: boots}, k))
	e.dial(t)
	require.Eventually(t, func() bool { return k.Len() == 1 }, eternal, ms)
	return e, k
}

// As over net: the peer reads the answer and an end, whatever it has sent.
func TestARefusedRequestIsAnswered(t *testing.T) {
	e, k := fullEngine(t, keepalive.Config{
		OnRefuse: httpkeepalive.Refuse(http.StatusServiceUnavailable, 3*time.Second),
		Closing:  keepalive.Closing{Timeout: 3 * time.Second}, // a client has half of that to ask
	})
	before := rlimit.Open()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: eternal}
	for range 10 {
		resp, err := client.Get("http://" + e.addr.String())
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
		require.Equal(t, "3", resp.Header.Get("Retry-After"))
	}
	for name, ask := range map[string]func(c net.Conn){
		"says nothing":   func(net.Conn) {},
		"asks for much":  func(c net.Conn) { _, _ = c.Write(make([]byte, 1<<20)) },
		"ends its side":  func(c net.Conn) { fmt.Fprint(c, "GET / HTTP/1.1\r\n\r\n"); c.(*net.TCPConn).CloseWrite() },
		"asks and stays": func(c net.Conn) { fmt.Fprint(c, "GET / HTTP/1.1\r\n\r\n") },
	} {
		c := e.dial(t)
		ask(c)
		got, err := io.ReadAll(c)
		require.NoError(t, err, name)
		require.Contains(t, string(got), "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 3\r\n", name)
		require.NoError(t, c.Close())
	}
	require.Equal(t, 1, k.Len())
	require.EqualValues(t, 14, k.Stats().RefusedFull)
	require.Eventually(t, func() bool { return rlimit.Open() == before }, eternal, ms)
}

// Of as many as may stay each is answered, and nothing is left. An endless peer is closed before its time.
func TestManyRefusalsLeaveNothing(t *testing.T) {
	peers := rlimit.Refusals()
	e, k := fullEngine(t, keepalive.Config{
		OnRefuse: func(any, keepalive.Reason) []byte { return []byte("sorry\n") },
		Closing:  keepalive.Closing{Timeout: eternal / 2},
	})
	before := rlimit.Open()
	conns := make([]net.Conn, peers)
	for i := range conns {
		conns[i] = e.dial(t)
	}
	require.Eventually(t, func() bool { return k.Stats().RefusedFull == uint64(peers) }, eternal, ms)
	require.Eventually(t, func() bool { return rlimit.Open() == before+2*peers }, eternal, ms, "each has one descriptor, beside its peer's")
	errs := make(chan error, peers)
	var all sync.WaitGroup
	for _, c := range conns {
		all.Go(func() {
			defer c.Close()
			if _, err := c.Write([]byte("hello\n")); err != nil {
				errs <- err
			} else if got, err := io.ReadAll(c); err != nil || string(got) != "sorry\n" {
				errs <- fmt.Errorf("%q: %w", got, err)
			}
		})
	}
	all.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	floods := e.dial(t)
	for err := error(nil); err == nil; {
		_, err = floods.Write(make([]byte, 1<<20))
	}
	require.NoError(t, floods.Close())
	require.Eventually(t, func() bool { return rlimit.Open() == before }, eternal, ms)
	require.Equal(t, 1, k.Len())
}

// Words that are none are no reason to stay.
func TestARefusalWithoutWordsIsAClose(t *testing.T) {
	for name, onRefuse := range map[string]func(any, keepalive.Reason) []byte{
		"none": nil, "nothing": func(any, keepalive.Reason) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			e, _ := fullEngine(t, keepalive.Config{OnRefuse: onRefuse, Closing: keepalive.Closing{Timeout: eternal}})
			c := e.dial(t)
			before := rlimit.Open()
			got, _ := io.ReadAll(c)
			require.Empty(t, got)
			require.LessOrEqual(t, rlimit.Open(), before)
		})
	}
}
