package httpkeepalive_test

import (
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/httpkeepalive"
)

// lateReaders is a listener for a program that is slow to read: while the gate is closed, bytes wait in the sockets.
type lateReaders struct {
	net.Listener
	gate func()
}

func (l lateReaders) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &lateReader{c.(*net.TCPConn), l.gate}, nil
}

type lateReader struct {
	*net.TCPConn
	gate func()
}

// Read waits for bytes, or for the end of the connection, and then for the gate.
func (c *lateReader) Read(p []byte) (int, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	_ = raw.Read(func(fd uintptr) bool {
		_, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		return err != unix.EAGAIN
	})
	c.gate()
	return c.TCPConn.Read(p)
}

// A program that is busy with itself reads late. Its clients can't know that.
func TestShutdownAnswersRequestsThatWaitInTheSocketsOfASlowProgram(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]bool{"the first request": true, "the next request": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := make(chan struct{})
			var closed atomic.Bool
			state := make(chan http.ConnState, 10)
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			k, err := keepalive.New(keepalive.Config{Timeout: time.Minute})
			require.NoError(t, err)
			defer k.Close()
			srv := &http.Server{Handler: http.HandlerFunc(answer), ConnState: func(_ net.Conn, s http.ConnState) { state <- s }}
			httpkeepalive.Wrap(srv, k)
			served := make(chan error, 1)
			go func() {
				served <- srv.Serve(k.Listener(lateReaders{ln, func() {
					if closed.Load() {
						<-gate
					}
				}}))
			}()
			e := &ending{plain: ln.Addr().String()}
			client := e.dial(t, "")
			ask := func() { fmt.Fprint(client, "GET /next HTTP/1.1\r\nHost: a\r\n\r\n") }
			require.Equal(t, http.StateNew, <-state)
			if !first {
				ask()
				requireBody(t, "/next", client.response(t))
				require.Equal(t, http.StateActive, <-state)
				require.Equal(t, http.StateIdle, <-state)
			}
			closed.Store(true)
			ask()
			down := make(chan error, 1)
			go func() { down <- httpkeepalive.Shutdown(t.Context(), srv, k) }()
			time.Sleep(lastWord + 500*time.Millisecond)
			close(gate)
			res := client.response(t)
			require.True(t, res.Close)
			requireBody(t, "/next", res)
			require.NoError(t, <-down)
			require.ErrorIs(t, <-served, http.ErrServerClosed)
		})
	}
}

// Clients ask one request after the other, with pauses, over connections that they keep. What they have sent before the
// last word of their connections was over is answered, however busy the machine is.
func TestAShutdownBesideManyClientsLosesNoRequest(t *testing.T) {
	t.Parallel()
	const many = 60
	e := serveEnding(t)
	var begun atomic.Pointer[time.Time] // the shutdown
	var answered atomic.Int64
	var clients sync.WaitGroup
	for i := range many {
		client := e.dial(t, "/")
		requireBody(t, "", client.response(t))
		clients.Go(func() {
			for ; ; time.Sleep(time.Duration(i) * time.Millisecond) {
				fmt.Fprint(client, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
				sent := time.Now()
				res, err := http.ReadResponse(client.Reader, nil)
				if err != nil {
					if at := begun.Load(); at == nil || sent.Sub(*at) < lastWord {
						t.Errorf("lost a request: %v", err)
					}
					return
				}
				if answered.Add(1); res.Close {
					return
				}
			}
		})
	}
	require.Eventually(t, func() bool { return answered.Load() > 5*many }, soon, time.Millisecond)
	now := time.Now()
	begun.Store(&now)
	require.NoError(t, httpkeepalive.Shutdown(t.Context(), e.srv, e.k))
	clients.Wait()
}
