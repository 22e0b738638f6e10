//go:build interop

package keepalive

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/certtest"
)

// curl against net/http on a guarded listener: plain, with TLS, and with HTTP/2.
func TestCurl(t *testing.T) {
	k := newNetKeeper(t, Config{})
	cert, _ := certtest.New(t)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" { // a download over three timeouts
			for range 24 {
				time.Sleep(beat)
				fmt.Fprint(w, strings.Repeat("x", 100))
				_ = http.NewResponseController(w).Flush()
				for g := range k.Guards() {
					g.Touch()
				}
			}
			return
		}
		fmt.Fprint(w, r.Proto)
	})
	plain := serve(t, k, handler, nil)
	overTLS := serve(t, k, handler, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12})
	for args, want := range map[string]string{
		"http://" + plain:                                 "HTTP/1.1",
		"--http1.1 https://" + overTLS:                    "HTTP/1.1",
		"--http2 https://" + overTLS:                      "HTTP/2.0",
		"http://" + plain + "/slow":                       strings.Repeat("x", 2400),
		"--http2 https://" + overTLS + "/slow":            strings.Repeat("x", 2400),
		"http://" + plain + " http://" + plain + "/again": "HTTP/1.1HTTP/1.1",
	} {
		out, err := exec.Command("curl", append([]string{"-sSk", "--max-time", "20"}, strings.Fields(args)...)...).CombinedOutput()
		require.NoError(t, err, "curl %s: %s", args, out)
		require.Equal(t, want, string(out), "curl %s", args)
	}
	require.Eventually(t, func() bool { return k.Len() == 0 }, eternal, ms)
}
