//go:build interop

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/examples/internal/exampletest"
)

// curl, plain and over TLS with HTTP/2; each with a request that takes three timeouts.
func TestCurl(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		overTLS bool
		args    string
		want    string
	}{
		{false, "", "HTTP/1.1"},
		{true, "--http1.1", "HTTP/1.1"},
		{true, "--http2", "HTTP/2.0"},
	} {
		t.Run(fmt.Sprintf("tls=%v%s", test.overTLS, test.args), func(t *testing.T) {
			t.Parallel()
			url := base(start(t, test.overTLS), test.overTLS)
			d := 3 * exampletest.Timeout
			args := append(strings.Fields("-sSk --max-time 30 "+test.args), url, fmt.Sprintf("%s/slow?for=%v", url, d), url)
			out := exampletest.Output(t, exampletest.Program(t, "curl", "curl", args...))
			hello := "hello over " + test.want + "\n"
			require.Equal(t, hello+fmt.Sprintf("done after %v\n", d)+hello, out)
		})
	}
}
