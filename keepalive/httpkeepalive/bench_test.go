package httpkeepalive_test

import (
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/httpkeepalive"
)

// BenchmarkBody is an upload, read in pieces of 32 KiB: each Read is a wait for the peer. Bare is without this package.
func BenchmarkBody(b *testing.B) {
	for _, wrapped := range []bool{true, false} {
		name := map[bool]string{true: "wrapped", false: "bare"}[wrapped]
		b.Run(name, func(b *testing.B) {
			k, err := keepalive.New(keepalive.Config{Timeout: time.Minute})
			require.NoError(b, err)
			defer k.Close()
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(b, err)
			piece := make([]byte, 32<<10)
			b.SetBytes(int64(len(piece)))
			srv := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				own := make([]byte, len(piece))
				for err := error(nil); err == nil; {
					_, err = r.Body.Read(own)
				}
			})}
			if wrapped {
				httpkeepalive.Wrap(srv, k)
			}
			defer srv.Close()
			go srv.Serve(k.Listener(ln))
			b.ReportAllocs()
			b.ResetTimer()
			res, err := http.Post("http://"+ln.Addr().String(), "", io.LimitReader(zeros{}, int64(b.N)*int64(len(piece))))
			require.NoError(b, err)
			require.NoError(b, res.Body.Close())
		})
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// BenchmarkRequest is a small request and its response, over one connection.
func BenchmarkRequest(b *testing.B) {
	for _, wrapped := range []bool{true, false} {
		name := map[bool]string{true: "wrapped", false: "bare"}[wrapped]
		b.Run(name, func(b *testing.B) {
			k, err := keepalive.New(keepalive.Config{Timeout: time.Minute})
			require.NoError(b, err)
			defer k.Close()
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(b, err)
			srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })}
			if wrapped {
				httpkeepalive.Wrap(srv, k)
			}
			defer srv.Close()
			go srv.Serve(k.Listener(ln))
			conn, err := net.Dial("tcp", ln.Addr().String())
			require.NoError(b, err)
			defer conn.Close()
			answer := make([]byte, 1000)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
				_, err = conn.Read(answer)
			}
			require.NoError(b, err)
		})
	}
}
