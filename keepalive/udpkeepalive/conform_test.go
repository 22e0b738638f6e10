package udpkeepalive

import (
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/frameworks"
	"github.com/heartwheel-go/heartwheel/internal/testmain"
	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/adapter/adaptertest"
)

func TestMain(m *testing.M) {
	testmain.Parallel(16) // they mostly wait
	testmain.Run(m)
}

func TestTheAdapterForUDPConforms(t *testing.T) {
	t.Parallel()
	proved := adaptertest.Run(t, adaptertest.Adapter{
		Start:     serveLines,
		Datagrams: true, NoSocket: true, NoWait: true, InLoop: true, NoGoexit: true,
	})
	frameworks.Check(t, "[UDP](udp.md)", "all", proved)
}

func serveLines(t *testing.T, k *keepalive.Keeper, handle adaptertest.Handler) net.Addr {
	conn := Wrap[struct{}](listen(t, "127.0.0.1:0"), k)
	var serving sync.WaitGroup
	serving.Go(func() {
		for buf := make([]byte, 1<<10); ; {
			n, session, err := conn.Read(buf)
			if err != nil {
				return
			}
			answer, stay := handle(session, strings.TrimSuffix(string(buf[:n]), "\n"))
			if len(answer) > 0 {
				_, _ = session.Write(answer)
			}
			if !stay {
				_ = session.Close()
			}
		}
	})
	t.Cleanup(func() {
		require.NoError(t, conn.Close())
		serving.Wait()
	})
	return conn.LocalAddr()
}

func listen(t *testing.T, addr string) *net.UDPConn {
	socket, err := net.ListenPacket("udp", addr)
	require.NoError(t, err)
	return socket.(*net.UDPConn)
}
