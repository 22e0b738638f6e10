//go:build interop

package httpcall

import (
	"encoding/base64"
	"encoding/hex"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOpenSSLFindsTheSameSignature(t *testing.T) {
	secret, err := ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	require.NoError(t, err)
	type seen struct {
		header http.Header
		body   []byte
	}
	got := make(chan seen, 1)
	server := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- seen{r.Header, body}
	})
	c := open(t, Config{Allow: here, Secrets: [][]byte{secret}})
	require.NoError(t, c.Call(t.Context(), task, to(server.URL)))
	s := <-got

	cmd := exec.Command("openssl", "dgst", "-sha256", "-mac", "HMAC", "-macopt", "hexkey:"+hex.EncodeToString(secret), "-binary")
	cmd.Stdin = strings.NewReader(s.header.Get("webhook-id") + "." + s.header.Get("webhook-timestamp") + "." + string(s.body))
	mac, err := cmd.Output()
	require.NoError(t, err)
	require.Equal(t, "v1,"+base64.StdEncoding.EncodeToString(mac), s.header.Get("webhook-signature"))
	require.NoError(t, Verify(s.header, s.body, time.Now(), time.Minute, secret))
}
