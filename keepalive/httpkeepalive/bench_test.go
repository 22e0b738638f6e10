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

// serves runs a benchmark of a server, with this package and bare.
func serves(b *testing.B, handler http.HandlerFunc, client func(b *testing.B, addr string)) {
	for _, name := range []string{"wrapped", "bare"} {
		b.Run(name, func(b *testing.B) {
			k, err := keepalive.New(keepalive.Config{Timeout: time.Minute})
			require.NoError(b, err)
			defer k.Close()
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(b, err)
			srv := &http.Server{Handler: handler}
			if name == "wrapped" {
				httpkeepalive.Wrap(srv, k)
			}
			defer srv.Close()
			go srv.Serve(k.Listener(ln))
			b.ReportAllocs()
			client(b, ln.Addr().String())
		})
	}
}

// BenchmarkBody is an upload, read in pieces of 32 KiB: each Read is a wait for the peer.
func BenchmarkBody(b *testing.B) {
	const piece = 32 << 10
	serves(b, func(_ http.ResponseWriter, r *http.Request) {
		own := make([]byte, piece)
		for err := error(nil); err == nil; {
			_, err = r.Body.Read(own)
		}
	}, func(b *testing.B, addr string) {
		b.SetBytes(piece)
		b.ResetTimer()
		res, err := http.Post("http://"+addr, "", io.LimitReader(zeros{}, int64(b.N)*piece))
		require.NoError(b, err)
		require.NoError(b, res.Body.Close())
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// BenchmarkRequest is a small request and its response, over one connection.
func BenchmarkRequest(b *testing.B) {
	serves(b, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }, func(b *testing.B, addr string) {
		conn, err := net.Dial("tcp", addr)
		require.NoError(b, err)
		defer conn.Close()
		answer := make([]byte, 1000)
		b.ResetTimer()
		for range b.N {
			_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			_, err = conn.Read(answer)
		}
		require.NoError(b, err)
	})
}
