package keepalive_test

import (
	"bufio"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/frameworks"
	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/adapter/adaptertest"
)

func TestTheAdapterForNetConforms(t *testing.T) {
	t.Parallel()
	proved := adaptertest.Run(t, adaptertest.Adapter{Start: serveLines})
	frameworks.Check(t, "[`net`](net.md)", "all", proved)
}

// serveLines has a goroutine for each connection.
func serveLines(t *testing.T, k *keepalive.Keeper, handle adaptertest.Handler) net.Addr {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ln := k.Listener(inner)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					answer, stay := handle(conn, lines.Text())
					if _, err := conn.Write(answer); err != nil || !stay {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		serving.Wait()
	})
	return ln.Addr()
}
