package exampletest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Shutdown stops an HTTP server in the middle of an upload, with a silent connection beside it. The server
// must drain the silent one first. The upload ends later, and must be whole. No timeout ends either.
func Shutdown(t *testing.T, path string, serve func(ctx context.Context, addr string, timeout time.Duration, logger *slog.Logger) error) {
	var s *Server
	var silent, upload net.Conn
	uploaded := make(chan error, 1)
	t.Run("server", func(st *testing.T) {
		s = Serve(st, func(ctx context.Context, addr string, _ time.Duration, logger *slog.Logger) error {
			return serve(ctx, addr, Late, logger)
		})
		silent, upload = dial(t, s.Addr), dial(t, s.Addr) // accepted in this order
		_, err := fmt.Fprintf(upload, "POST %s HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"+
			"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 12\r\n\r\n", path)
		require.NoError(st, err)
		in := bufio.NewReader(upload)
		line, err := in.ReadString('\n')
		require.NoError(st, err)
		require.Equal(st, "HTTP/1.1 100 Continue\r\n", line)
		_, err = in.ReadString('\n')
		require.NoError(st, err)
		_, err = io.WriteString(upload, "for=1")
		require.NoError(st, err)
		go func() { uploaded <- finish(silent, upload, in) }()
	})
	require.NoError(t, <-uploaded)
	s.Logs(t, fmt.Sprintf("remote=%v reason=drain", silent.LocalAddr()))
}

// finish waits for the end of the silent connection, and only then sends the rest.
func finish(silent, upload net.Conn, in *bufio.Reader) error {
	if err := EOF(silent)(); err != nil {
		return err
	}
	if _, err := io.WriteString(upload, "ms&rest"); err != nil {
		return err
	}
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("got %s", res.Status)
	}
	_, err = io.Copy(io.Discard, res.Body)
	return err
}

func dial(t *testing.T, addr string) net.Conn {
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(Late)))
	return c
}
