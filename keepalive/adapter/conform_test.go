//go:build unix

package adapter_test

import (
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/frameworks"
	"github.com/heartwheel-go/heartwheel/internal/testmain"
	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/adapter/adaptertest"
)

func TestMain(m *testing.M) { testmain.Run(m) }

func TestTheAdapterOfTheExampleConforms(t *testing.T) {
	proved := adaptertest.Run(t, adaptertest.Adapter{
		Datagrams: true,
		NoSocket:  true,
		NoWait:    true,
		InLoop:    true,
		Start: func(t *testing.T, k *keepalive.Keeper, handle adaptertest.Handler) net.Addr {
			server, err := serveUDP(k, func(s *session, datagram []byte) (answer []byte, stay bool) {
				return handle(s, strings.TrimSuffix(string(datagram), "\n"))
			})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, server.Close()) })
			return server.socket.LocalAddr()
		},
	})
	frameworks.Check(t, "[UDP](../keepalive/adapter/example_test.go), an example", "Linux, macOS, BSD", proved)
}
