package main

import (
	"bufio"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/pion/dtls/v3"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/examples/internal/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m) }

func TestWhoTalksStaysAndWhoIsSilentGoes(t *testing.T) {
	t.Parallel()
	s := exampletest.Start(t, serve)
	addr, err := net.ResolveUDPAddr("udp", s.Addr)
	require.NoError(t, err)
	c, err := dtls.DialWithOptions("udp", addr, dtls.WithInsecureSkipVerify(true))
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.SetDeadline(time.Now().Add(exampletest.Late)))
	in := bufio.NewReader(c)
	last := exampletest.Talk(t, func() error {
		if _, err := fmt.Fprintln(c, "hello"); err != nil {
			return err
		}
		line, err := in.ReadString('\n')
		if err == nil && line != "hello\n" {
			return fmt.Errorf("got %q", line)
		}
		return err
	})
	exampletest.Gone(t, last, func() error {
		line, err := in.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "BYE idle\n", line)
		return exampletest.EOF(in)()
	})
	s.Logs(t, "it was silent")
}
