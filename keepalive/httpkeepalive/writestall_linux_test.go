package httpkeepalive_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/httpkeepalive"
)

// A response that nobody takes holds its connection: an event stream, or a long answer. WriteStall ends it, so a Shutdown
// need not wait for its context.
func TestAResponseThatNobodyTakesEnds(t *testing.T) {
	t.Parallel()
	const stall, eternal = 500 * time.Millisecond, time.Minute
	for name, write := range map[string]func(w http.ResponseWriter) error{
		"event stream": func(w http.ResponseWriter) error {
			w.Header().Set("Content-Type", "text/event-stream")
			for {
				if _, err := fmt.Fprintf(w, "data: %01000d\n\n", 0); err != nil {
					return err
				}
				if err := http.NewResponseController(w).Flush(); err != nil {
					return err
				}
			}
		},
		"answer": func(w http.ResponseWriter) error {
			_, err := w.Write(make([]byte, 64<<20))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, err := keepalive.New(keepalive.Config{Timeout: eternal, WriteStall: stall})
			require.NoError(t, err)
			defer k.Close()
			ended := make(chan error, 1)
			srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { ended <- write(w) })}
			httpkeepalive.Wrap(srv, k)
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			served := make(chan error, 1)
			go func() { served <- srv.Serve(k.Listener(ln)) }()

			client, err := net.Dial("tcp", ln.Addr().String())
			require.NoError(t, err)
			defer client.Close()
			begin := time.Now()
			fmt.Fprint(client, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			_, err = bufio.NewReaderSize(client, 64).ReadByte() // and no more
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(context.Background(), eternal)
			defer cancel()
			require.NoError(t, httpkeepalive.Shutdown(ctx, srv, k))
			require.ErrorIs(t, <-served, http.ErrServerClosed)
			require.ErrorIs(t, <-ended, keepalive.ReasonWriteStall)
			require.GreaterOrEqual(t, time.Since(begin), stall)
			require.EqualValues(t, 1, k.Stats().Closed[keepalive.ReasonWriteStall])
		})
	}
}
