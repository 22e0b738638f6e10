package httpkeepalive_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/httpkeepalive"
)

// The handler has returned, and its response is in the buffers of the server and the kernel. A client takes
// many timeouts for that, and has nothing to say meanwhile.
func TestSlowClientGetsTheEndOfItsResponse(t *testing.T) {
	t.Parallel()
	for _, activity := range activities() {
		t.Run(activity.String(), func(t *testing.T) {
			t.Parallel()
			for range 10 {
				if takesAll(t, activity) {
					return
				}
			}
			t.Fatal("this client is always slower than it should be")
		})
	}
}

// takesAll reports whether the client itself was quick enough.
func takesAll(t *testing.T, activity keepalive.Activity) (quick bool) {
	const timeout, total = time.Second, 128 << 10
	k, err := keepalive.New(keepalive.Config{Timeout: timeout, Activity: activity, Closing: keepalive.Closing{Mode: keepalive.CloseReset}})
	require.NoError(t, err)
	defer k.Close()
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(total))
		_, _ = w.Write(make([]byte, total-1))
		_, _ = w.Write(make([]byte, 1)) // it leaves with the end of the response
	})}
	httpkeepalive.Wrap(srv, k)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(k.Listener(ln)) }()
	defer func() {
		_ = srv.Close()
		require.ErrorIs(t, <-served, http.ErrServerClosed)
	}()
	dialer := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error { // a window of some KiB
		return raw.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 8<<10) })
	}}
	begin, last, longest := time.Now(), time.Now(), time.Duration(0)
	step := func() { // between two of them the client is busy with itself
		longest = max(longest, time.Since(last))
		last = time.Now()
	}
	got, err := func() (got int, err error) {
		c, err := dialer.Dial("tcp", ln.Addr().String())
		if err != nil {
			return 0, err
		}
		defer c.Close()
		step()
		if _, err = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			return 0, err
		}
		step()
		res, err := http.ReadResponse(bufio.NewReaderSize(c, 16), nil)
		if err != nil {
			return 0, err
		}
		defer res.Body.Close()
		for buf := make([]byte, 2<<10); err == nil; step() {
			var n int
			n, err = res.Body.Read(buf)
			got += n
			time.Sleep(50 * time.Millisecond)
		}
		return got, err
	}()
	step()
	if longest > timeout/2 {
		return false
	}
	require.Equal(t, io.EOF, err, "after %d bytes and %v", got, time.Since(begin))
	require.Equal(t, total, got)
	return true
}
