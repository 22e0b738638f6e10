//go:build interop

package main

import (
	"bufio"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/examples/internal/exampletest"
)

func TestOpenSSL(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := exampletest.Run(t, exampletest.Program(t, "openssl", "openssl", "s_client", "-dtls1_2", "-quiet", "-connect", s.Addr))
	out := bufio.NewReader(c.Out)
	last := time.Now()
	fmt.Fprintln(c.In, "hello")
	got := ""
	for !strings.HasSuffix(got, "BYE idle\n") { // after its words about the certificate
		line, err := out.ReadString('\n')
		require.NoError(t, err, got)
		got += line
	}
	require.Contains(t, got, "hello\n")
	require.GreaterOrEqual(t, time.Since(last), exampletest.Timeout)
	s.Logs(t, "reason=idle")
}
