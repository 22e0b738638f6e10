//go:build interop

package main

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The Python of its page accepts a call by a real server, and nothing that was made of it.
func TestThePageOfSignedCallsVerifiesACall(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("docs/signing.md")
	require.NoError(t, err)
	_, code, found := strings.Cut(string(page), "```python\n")
	require.True(t, found)
	code, _, _ = strings.Cut(code, "```")
	type call struct {
		Secret  string
		Headers map[string]string
		Body    string
	}
	calls := make(chan call, 10)
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		c := call{Body: string(body), Headers: map[string]string{}}
		for name := range r.Header {
			c.Headers[name] = r.Header.Get(name)
		}
		calls <- c
	}))
	t.Cleanup(target.Close)
	secret := func(letter string) string {
		return "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(letter, 32)))
	}
	p := start(t, process{args: []string{"-memory", "-callback-allow", "127.0.0.0/8"}, env: []string{"TIMEOUTD_CALLBACK_SECRET=" + secret("n") + " " + secret("o")}})
	p.set(t, "t/tasks/a.b", `{"payload":{"n":"ü.1"},"callback":{"kind":"http","target":"`+target.URL+`"}}`)
	came := <-calls

	verify := func(change func(*call)) string {
		c := came
		c.Headers = map[string]string{}
		for name, value := range came.Headers {
			c.Headers[name] = value
		}
		change(&c)
		in, err := json.Marshal(c)
		require.NoError(t, err)
		cmd := exec.CommandContext(t.Context(), "python3", "-c", code+`
import json, sys
c = json.load(sys.stdin)
print(verify(c["Secret"], c["Headers"], c["Body"].encode()))
`)
		cmd.Stdin, cmd.Stderr = strings.NewReader(string(in)), os.Stderr
		out, err := cmd.Output()
		require.NoError(t, err)
		return strings.TrimSpace(string(out))
	}
	require.Equal(t, "True", verify(func(c *call) { c.Secret = secret("n") }))
	require.Equal(t, "True", verify(func(c *call) { c.Secret = secret("o") }))
	require.Equal(t, "False", verify(func(c *call) { c.Secret = secret("x") }))
	require.Equal(t, "False", verify(func(c *call) { c.Secret = secret("n"); c.Body += " " }))
	require.Equal(t, "False", verify(func(c *call) { c.Secret = secret("n"); c.Headers["Webhook-Id"] += "1" }))
	require.Equal(t, "False", verify(func(c *call) { c.Secret = secret("n"); c.Headers["Webhook-Timestamp"] = "1" }))
}
