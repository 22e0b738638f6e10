package httpkeepalive_test

import (
	"bytes"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/httpkeepalive"
)

// serveOne serves a handler, and returns its address.
func serveOne(t *testing.T, handler http.HandlerFunc) string {
	k, err := keepalive.New(keepalive.Config{Timeout: time.Minute})
	require.NoError(t, err)
	srv := &http.Server{Handler: handler}
	httpkeepalive.Wrap(srv, k)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(k.Listener(ln)) }()
	t.Cleanup(func() {
		srv.Close()
		<-served
		k.Close()
	})
	return ln.Addr().String()
}

// The server removes the files of a form after the handler.
func TestFilesOfAFormAreRemoved(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	addr := serveOne(t, func(_ http.ResponseWriter, r *http.Request) {
		if err := r.ParseMultipartForm(1); err != nil {
			t.Error(err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
			t.Error(left, err)
		}
	})
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	file, err := w.CreateFormFile("file", "name")
	require.NoError(t, err)
	_, err = file.Write(make([]byte, 11<<20))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer conn.Close()
	fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", w.FormDataContentType(), form.Len())
	_, err = form.WriteTo(conn)
	require.NoError(t, err)
	_, _ = io.Copy(io.Discard, conn)
	require.Eventually(t, func() bool {
		left, err := os.ReadDir(dir)
		return err == nil && len(left) == 0
	}, soon, time.Millisecond)
}

// Trailers that the header did not announce.
func TestTrailersReachTheHandler(t *testing.T) {
	addr := serveOne(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, r.Trailer.Get("Sum"))
	})
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer conn.Close()
	fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nSum: 7\r\n\r\n")
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Contains(t, string(answer), "\r\n\r\n7")
}
