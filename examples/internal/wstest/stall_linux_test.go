package wstest

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	coder "github.com/coder/websocket"
	gorilla "github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/examples/internal/exampletest"
	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/httpkeepalive"
)

// A client speaks all the time, so it is alive, and never reads. Neither the message under way nor a close frame keeps it.
func TestAClientThatSpeaksAndNeverReads(t *testing.T) {
	each(t, func(t *testing.T, v variant) {
		const stall = timeout / 2
		s := start(t, v, func(s socket, g *keepalive.Guard) error {
			defer g.Hold()()
			go func() { _ = s.write(message) }()
			for {
				if _, err := s.read(); err != nil {
					return err
				}
				g.Touch()
			}
		})
		cfg := s.keeper.Config()
		cfg.WriteStall, cfg.Closing.Timeout = stall, exampletest.Late
		require.NoError(t, s.keeper.Update(cfg))
		begin := time.Now() // the server writes before the dial is over
		c, _ := s.dialSlow(t, 0)
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			for c.WriteMessage(gorilla.TextMessage, []byte("hello")) == nil {
				time.Sleep(timeout / 20)
			}
		}()
		s.requireEnd(t, keepalive.ReasonWriteStall)
		require.GreaterOrEqual(t, time.Since(begin), stall)
		<-gone
	})
}

// A handshake that is refused gets a response.
func TestARefusedHandshake(t *testing.T) {
	t.Parallel()
	k, err := keepalive.New(keepalive.Config{
		Timeout: exampletest.Late, Room: keepalive.Room{MaxConns: 1},
		OnRefuse: httpkeepalive.Refuse(http.StatusServiceUnavailable, 10*time.Second),
		Closing:  keepalive.Closing{Timeout: exampletest.Late}, // a client has half of that to ask
	})
	require.NoError(t, err)
	defer k.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	srv := &http.Server{Handler: http.NotFoundHandler()}
	httpkeepalive.Wrap(srv, k)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(k.Listener(ln)) }()
	defer func() {
		require.NoError(t, srv.Close())
		require.ErrorIs(t, <-served, http.ErrServerClosed)
	}()
	first, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	defer first.Close()
	require.Eventually(t, func() bool { return k.Len() == 1 }, exampletest.Late, time.Millisecond)

	url := "ws://" + ln.Addr().String()
	_, resp, err := gorilla.DefaultDialer.Dial(url, nil)
	require.ErrorIs(t, err, gorilla.ErrBadHandshake)
	requireRefused(t, resp)
	ctx, cancel := context.WithTimeout(context.Background(), exampletest.Late)
	defer cancel()
	_, resp, err = coder.Dial(ctx, url, nil)
	require.Error(t, err)
	requireRefused(t, resp)
}

func requireRefused(t *testing.T, resp *http.Response) {
	require.NotNil(t, resp)
	require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	require.Equal(t, "10", resp.Header.Get("Retry-After"))
}
