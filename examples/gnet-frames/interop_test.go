//go:build interop

package main

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/examples/internal/exampletest"
)

func TestNetcat(t *testing.T) {
	t.Parallel()
	s := exampletest.Serve(t, serve)
	host, port, err := net.SplitHostPort(s.Addr)
	require.NoError(t, err)
	c := exampletest.Run(t, exampletest.Program(t, "netcat-openbsd", "nc", host, port))
	last := time.Now()
	_, err = c.In.Write(frame([]byte("hello")))
	require.NoError(t, err)
	want := append(frame([]byte("hello")), frame(nil)...) // the question
	want = append(want, frame([]byte("no_answer"))...)
	got := make([]byte, len(want))
	_, err = io.ReadFull(c.Out, got)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.GreaterOrEqual(t, time.Since(last), exampletest.Timeout)
}
