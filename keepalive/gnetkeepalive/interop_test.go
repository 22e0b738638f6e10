//go:build interop

package gnetkeepalive

import (
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/httpkeepalive"
)

// A refused curl reads the answer, also in the middle of its upload.
func TestCurlIsRefused(t *testing.T) {
	e, _ := fullEngine(t, keepalive.Config{OnRefuse: httpkeepalive.Refuse(http.StatusServiceUnavailable, 2*time.Second)})
	for name, args := range map[string]string{"get": "", "upload": "--data-binary @/dev/stdin"} {
		cmd := exec.Command("curl", append(strings.Fields(args), "-sS", "-o", "/dev/null", "-w", "%{http_code}|%header{retry-after}", "http://"+e.addr.String())...)
		cmd.Stdin = strings.NewReader(strings.Repeat("x", 1<<20))
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", name, out)
		require.Equal(t, "503|2", string(out), name)
	}
}
