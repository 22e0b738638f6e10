package ssekeepalive_test

import (
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/proctest"
	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/httpkeepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/ssekeepalive"
)

// The reader of a quiet stream vanishes. Its connection is held, but the comments on their way to it tell the Keeper.
func TestAVanishedReaderIsNoticed(t *testing.T) {
	t.Parallel()
	const timeout = time.Second
	closed := make(chan keepalive.Reason, 1)
	k, err := keepalive.New(keepalive.Config{Timeout: timeout, OnClose: func(_ any, why keepalive.Reason) { closed <- why }})
	require.NoError(t, err)
	defer k.Close()
	streams, err := ssekeepalive.New(ssekeepalive.Config{Interval: timeout / 10, WriteTimeout: time.Hour})
	require.NoError(t, err)
	defer streams.Close()
	returned := make(chan struct{})
	srv := &http.Server{Handler: streams.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(returned)
		opens(w)
		<-r.Context().Done()
	}))}
	httpkeepalive.Wrap(srv, k)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(k.Listener(ln)) }()
	defer func() {
		_ = srv.Close()
		require.ErrorIs(t, <-served, http.ErrServerClosed)
	}()

	reader, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	defer reader.Close()
	_, err = io.WriteString(reader, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return streams.Stats().Comments > 2 }, soon, time.Millisecond)
	proctest.Vanish(t, reader.(*net.TCPConn))
	select {
	case why := <-closed:
		require.NotEqual(t, keepalive.ReasonPeer, why)
		t.Log(why)
	case <-time.After(soon):
		require.Fail(t, "nobody notices")
	}
	<-returned
}
