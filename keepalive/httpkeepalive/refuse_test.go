package httpkeepalive_test

import (
	"net"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/httpkeepalive"
)

// refusing serves on an address whose connections have no room.
func refusing(t *testing.T) (addr string, k *keepalive.Keeper) {
	if runtime.GOOS == "windows" {
		t.Skip("OnRefuse is for Unix systems")
	}
	k, err := keepalive.New(keepalive.Config{
		OnRefuse: httpkeepalive.Refuse(http.StatusTooManyRequests, 1500*time.Millisecond),
		Room:     keepalive.Room{MaxPerKey: 1},
		Closing:  keepalive.Closing{Timeout: time.Minute}, // a client has half of that to ask
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, k.Close()) })
	srv := &http.Server{Handler: http.NotFoundHandler()}
	httpkeepalive.Wrap(srv, k)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(k.Listener(ln)) }()
	t.Cleanup(func() {
		require.NoError(t, srv.Close())
		require.ErrorIs(t, <-served, http.ErrServerClosed)
	})
	first, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { first.Close() })
	require.Eventually(t, func() bool { return k.Len() == 1 }, time.Minute, time.Millisecond)
	return ln.Addr().String(), k
}

// The client of net/http takes no answer before it has asked, and reads one that is there.
func TestARefusedRequestIsAnswered(t *testing.T) {
	t.Parallel()
	addr, k := refusing(t)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodGet} {
		request, err := http.NewRequest(method, "http://"+addr, nil)
		require.NoError(t, err)
		resp, err := client.Do(request)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, "429 Too Many Requests", resp.Status)
		require.Equal(t, "2", resp.Header.Get("Retry-After"))
		require.True(t, resp.Close)
	}
	require.EqualValues(t, 3, k.Stats().RefusedPerKey)
}

func TestRefuseNeedsAStatusOfAnErrorAndATime(t *testing.T) {
	for status, retry := range map[int]time.Duration{0: 0, 200: 0, 399: 0, 600: 0, -503: 0, 503: -1} {
		require.Panics(t, func() { httpkeepalive.Refuse(status, retry) }, "%d %v", status, retry)
	}
	require.Equal(t, "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
		string(httpkeepalive.Refuse(503, 0)(nil, keepalive.ReasonFull)))
	require.Contains(t, string(httpkeepalive.Refuse(503, 1)(nil, keepalive.ReasonFull)), "Retry-After: 1\r\n")
}
