//go:build interop

package main

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/examples/internal/exampletest"
)

// openssl s_client can tell close_notify from an end without it.
func TestOpenSSL(t *testing.T) {
	t.Parallel()
	const unexpected = "unexpected eof while reading"
	for _, above := range []bool{false, true} {
		t.Run(fmt.Sprintf("above=%v", above), func(t *testing.T) {
			t.Parallel()
			s := start(t, above)
			c := exampletest.Run(t, exampletest.Program(t, "openssl", "openssl", "s_client", "-quiet", "-connect", s.Addr))
			out := bufio.NewReader(c.Out)
			fmt.Fprintln(c.In, "hello")
			for line := ""; line != "hello\n"; { // after its words about the certificate
				var err error
				line, err = out.ReadString('\n')
				require.NoError(t, err)
			}
			last := time.Now()
			fmt.Fprintln(c.In, "hello again")
			exampletest.Gone(t, last, func() error {
				rest, err := io.ReadAll(out)
				got := string(rest)
				require.True(t, strings.HasPrefix(got, "hello again\n"), got)
				require.Equal(t, above, strings.Contains(got, "BYE idle\n"), got)
				require.Equal(t, !above, strings.Contains(got, unexpected), got)
				return err
			})
			s.Logs(t, "reason=idle")
		})
	}
}
