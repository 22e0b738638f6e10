//go:build interop

package ssekeepalive_test

import (
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/haproxytest"
	"github.com/heartwheel-go/heartwheel/keepalive/ssekeepalive"
)

// until is a stream that has an event when a client has got so many comments, and then ends.
func until(k *ssekeepalive.Streams, comments uint64) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		opens(w)
		for k.Stats().Comments < comments && r.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
		fmt.Fprint(w, "data: the end\n\n")
	}
}

func TestCurlHearsTheComments(t *testing.T) {
	t.Parallel()
	cfg := ssekeepalive.Config{Interval: 50 * time.Millisecond, Comment: "still here"}
	eachProtocol(t, cfg, nil, func(t *testing.T, s *server, mux *http.ServeMux) {
		mux.Handle("/", until(s.streams, 10))
		args := "-sSkN --max-time 60 " + s.url
		switch {
		case strings.HasSuffix(t.Name(), "TLS"):
			args = "--http2-prior-knowledge " + args
		case strings.HasSuffix(t.Name(), "HTTP/2"):
			args = "--http2 " + args
		}
		out, err := exec.Command("curl", append(strings.Fields(args), "-w", "%{http_version}")...).Output()
		require.NoError(t, err)
		version := map[bool]string{true: "1.1", false: "2"}[strings.HasSuffix(t.Name(), "1.1")]
		require.Regexp(t, `^(: still here\n\n){10,}data: the end\n\n(: still here\n\n)*`+version+"$", string(out))
	})
}

func TestNghttpHearsTheComments(t *testing.T) {
	t.Parallel()
	cfg := ssekeepalive.Config{Interval: 50 * time.Millisecond, Comment: "still here"}
	eachProtocol(t, cfg, nil, func(t *testing.T, s *server, mux *http.ServeMux) {
		if strings.HasSuffix(t.Name(), "1.1") {
			return // it speaks HTTP/2 only
		}
		mux.Handle("/", until(s.streams, 10))
		out, err := exec.Command("nghttp", "--timeout=60", s.url).Output()
		require.NoError(t, err)
		require.Regexp(t, `^(: still here\n\n){10,}data: the end\n\n(: still here\n\n)*$`, string(out))
	})
}

// A stopped curl is ended, and only that.
func TestAStoppedCurlIsEnded(t *testing.T) {
	t.Parallel()
	cfg := ssekeepalive.Config{Interval: 50 * time.Millisecond, WriteTimeout: 300 * time.Millisecond}
	eachProtocol(t, cfg, func(s *server) { s.HTTP2 = &http.HTTP2Config{WriteByteTimeout: 3 * time.Second} }, func(t *testing.T, s *server, mux *http.ServeMux) {
		stopped, ended := make(chan struct{}), make(chan error, 1)
		mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
			opens(w)
			<-stopped
			for {
				if _, err := fmt.Fprintf(w, "data: %s\n\n", strings.Repeat("x", 10_000)); err != nil {
					ended <- err
					return
				}
			}
		})
		cmd := exec.Command("curl", "-sSkN", "--http2-prior-knowledge", s.url)
		if strings.HasSuffix(t.Name(), "1.1") {
			cmd = exec.Command("curl", "-sSkN", "--http1.1", s.url)
		}
		out, err := cmd.StdoutPipe() // nobody reads it: curl stops at its output
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		defer cmd.Wait()
		defer cmd.Process.Kill()
		first := make([]byte, 1)
		_, err = out.Read(first)
		require.NoError(t, err)
		close(stopped)
		select {
		case err := <-ended:
			require.ErrorIs(t, err, ssekeepalive.ErrSlowReader)
		case <-time.After(soon):
			require.Fail(t, "the write goes on")
		}
	})
}

// HAProxy closes a connection that is silent for two seconds. A quiet stream without comments ends by that.
func TestAStreamOutlivesAProxy(t *testing.T) {
	t.Parallel()
	const patience = 2 * time.Second
	k, err := ssekeepalive.New(ssekeepalive.Config{Interval: patience / 20})
	require.NoError(t, err)
	defer k.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.HandleFunc("/kept", func(w http.ResponseWriter, r *http.Request) { k.Wrap(until(k, k.Stats().Comments+30)).ServeHTTP(w, r) })
	mux.Handle("/silent", until(k, 1<<60))
	srv := &http.Server{Handler: mux}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	defer func() {
		_ = srv.Close()
		require.ErrorIs(t, <-served, http.ErrServerClosed)
	}()

	proxy := haproxytest.Start(t, ln.Addr().String(), "http", patience, "")
	kept := func() bool {
		out, err := exec.Command("curl", "-sSN", "--max-time", "60", "http://"+proxy+"/kept").Output()
		return err == nil && strings.Contains(string(out), "data: the end\n\n")
	}
	tries := 0
	for ; tries < 3 && !kept(); tries++ {
		continue
	}
	require.Less(t, tries, 3, "a machine may be busier with other work than the proxy is patient, but not always")
	out, err := exec.Command("curl", "-sSN", "--max-time", "60", "http://"+proxy+"/silent").Output()
	require.Error(t, err, "%s", out)
	require.Empty(t, out)
}
