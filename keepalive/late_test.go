package keepalive_test

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/internal/latetest"
)

func TestProbesDoNotMakeTheEndLate(t *testing.T) {
	latetest.Run(t, func(t *testing.T, cfg keepalive.Config) (*keepalive.Keeper, func() any) {
		k, err := keepalive.New(cfg)
		require.NoError(t, err)
		t.Cleanup(func() { k.Close() })
		inner, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		ln := k.Listener(inner)
		t.Cleanup(func() { ln.Close() })
		return k, func() any {
			peer, err := net.Dial("tcp", ln.Addr().String())
			require.NoError(t, err)
			t.Cleanup(func() { peer.Close() })
			conn, err := ln.Accept()
			require.NoError(t, err)
			return conn
		}
	})
}
