package wstest

import (
	"context"
	"errors"
	"io"
	"log"
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

// A connection that has asked for nothing yet does not cost the others their close frames.
func TestAShutdownTellsEachSocket(t *testing.T) {
	t.Parallel()
	const patience = exampletest.Late
	for _, v := range eachLibrary() {
		t.Run(v.library, func(t *testing.T) {
			t.Parallel()
			sockets := 200
			if v.hijack { // the same code for each library
				sockets = 20
			}
			k, err := keepalive.New(keepalive.Config{Timeout: exampletest.Late, Closing: keepalive.Closing{Mode: keepalive.CloseHalf, Timeout: exampletest.Late}})
			require.NoError(t, err)
			srv := &http.Server{ErrorLog: log.New(io.Discard, "", 0), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				ws, done := v.upgrade(t, w, r)
				defer done()
				_ = echo(ws, httpkeepalive.Guard(r))
			})}
			httpkeepalive.Wrap(srv, k)
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			served := make(chan error, 1)
			go func() { served <- srv.Serve(k.Listener(ln)) }()
			url := "ws://" + ln.Addr().String()

			told := make(chan error, sockets)
			for i := range sockets {
				if i%2 == 0 {
					c, _, err := gorilla.DefaultDialer.Dial(url, nil)
					require.NoError(t, err)
					defer c.Close()
					require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
					go func() {
						defer c.Close()
						told <- requireGoodbye(gorilla.CloseGoingAway, "drain", c)()
					}()
					continue
				}
				c, _, err := coder.Dial(t.Context(), url, nil)
				require.NoError(t, err)
				defer c.CloseNow()
				go func() {
					ctx, cancel := context.WithTimeout(context.Background(), patience)
					defer cancel()
					defer c.CloseNow()
					_, _, err := c.Read(ctx)
					if closed := new(coder.CloseError); errors.As(err, closed) && closed.Code == coder.StatusGoingAway && closed.Reason == "drain" {
						err = nil
					}
					told <- err
				}()
			}
			silent, err := net.Dial("tcp", ln.Addr().String())
			require.NoError(t, err)
			go func() {
				_, _ = io.Copy(io.Discard, silent)
				_ = silent.Close()
			}()
			require.Eventually(t, func() bool { return k.Len() == sockets+1 }, exampletest.Late, time.Millisecond)

			ctx, cancel := context.WithTimeout(t.Context(), exampletest.Late)
			defer cancel()
			require.NoError(t, httpkeepalive.Shutdown(ctx, srv, k))
			require.NoError(t, k.Close())
			lost := 0
			for range sockets {
				if <-told != nil {
					lost++
				}
			}
			require.Zero(t, lost)
			require.ErrorIs(t, <-served, http.ErrServerClosed)
		})
	}
}

// A program that asks why its read has failed gets an answer at once.
func TestTheContextKnowsWhenAReadHasFailed(t *testing.T) {
	each(t, func(t *testing.T, v variant) {
		s := start(t, v, func(s socket, g *keepalive.Guard) error {
			ctx := g.Context()
			g.Close(keepalive.ReasonLocal)
			_, _ = s.read()
			return context.Cause(ctx)
		})
		for range 20 {
			c := s.dial(t)
			require.NoError(t, requireGoodbye(gorilla.CloseNormalClosure, "local", c)())
			_ = c.Close()
			require.ErrorIs(t, <-s.errs, keepalive.ReasonLocal)
			<-s.told
		}
	})
}
