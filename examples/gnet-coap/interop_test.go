//go:build interop

package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/examples/internal/exampletest"
)

// libcoap's client asks from another port each time.
func TestLibcoap(t *testing.T) {
	t.Parallel()
	s := exampletest.Serve(t, serve)
	for range 3 {
		got := exampletest.Output(t, exampletest.Program(t, "libcoap3-bin", "coap-client-openssl", "-B", "30", "coap://"+s.Addr+"/"))
		require.Contains(t, got, "request 1")
	}
	got := exampletest.Output(t, exampletest.Program(t, "libcoap3-bin", "coap-client-openssl", "-B", "30", "-m", "delete", "coap://"+s.Addr+"/"))
	require.Contains(t, got, "4.05")
	s.Logs(t, "reason=idle")
}
