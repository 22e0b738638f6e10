package httpkeepalive_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/httpkeepalive"
)

// serveShed serves two pages. The one at /shed sheds a connection while it is asked for. shed gets what Shed returns.
func serveShed(t *testing.T) (k *keepalive.Keeper, addr string, shed chan error) {
	k, err := keepalive.New(keepalive.Config{Timeout: time.Minute})
	require.NoError(t, err)
	shed = make(chan error, 1)
	srv := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/shed" {
			go func() {
				n, err := k.Shed(t.Context(), keepalive.Shed{Share: 1})
				if err == nil && n != 1 {
					err = fmt.Errorf("%d connections were shed", n)
				}
				shed <- err
			}()
			<-httpkeepalive.Ending(r)
		}
	})}
	httpkeepalive.Wrap(srv, k)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(k.Listener(ln)) }()
	t.Cleanup(func() {
		require.NoError(t, srv.Close())
		require.ErrorIs(t, <-served, http.ErrServerClosed)
		require.NoError(t, k.Close())
	})
	return k, ln.Addr().String(), shed
}

func TestAConnectionOfHTTPIsShedBetweenTwoRequests(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/shed", "/"} { // during a request, and between two
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			k, addr, shed := serveShed(t)
			conn, err := net.Dial("tcp", addr)
			require.NoError(t, err)
			defer conn.Close()
			in := bufio.NewReader(conn)
			ask := func(path string) *http.Response {
				fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", path)
				res, err := http.ReadResponse(in, nil)
				require.NoError(t, err)
				return res
			}
			require.False(t, ask("/").Close)
			if path == "/" {
				go func() {
					_, err := k.Shed(t.Context(), keepalive.Shed{Count: 1})
					shed <- err
				}()
				require.Eventually(t, func() bool {
					for g := range k.Guards() {
						_, reason, _ := g.Deadline()
						return reason == keepalive.ReasonShed
					}
					return false
				}, soon, time.Millisecond)
			}
			require.True(t, ask(path).Close, "it says Connection: close")
			_, err = in.ReadByte()
			require.ErrorIs(t, err, io.EOF)
			require.NoError(t, <-shed)
			require.EqualValues(t, 1, k.Stats().Closed[keepalive.ReasonShed]+k.Stats().Closed[keepalive.ReasonPeer])
		})
	}
}
