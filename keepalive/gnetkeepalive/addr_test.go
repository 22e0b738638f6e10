package gnetkeepalive

import (
	"net"
	"path/filepath"
	"testing"

	"github.com/panjf2000/gnet/v2"
	"github.com/stretchr/testify/require"
)

// asks asks for the address in OnBoot, and stops the engine there.
type asks struct {
	gnet.BuiltinEventEngine
	addr net.Addr
	err  error
}

func (a *asks) OnBoot(eng gnet.Engine) gnet.Action {
	a.addr, a.err = Addr(eng)
	return gnet.Shutdown
}

func TestAddrIsTheRealOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	for asked, want := range map[string]string{
		"tcp://127.0.0.1:0": `^127\.0\.0\.1:[1-9]\d*$`,
		"unix://" + path:    "^" + path + "$",
	} {
		a := new(asks)
		require.NoError(t, gnet.Run(a, asked))
		require.NoError(t, a.err)
		require.Regexp(t, want, a.addr.String())
	}
}

func TestAddrNeedsOneListenerOfAStream(t *testing.T) {
	for _, asked := range [][]string{{"udp://127.0.0.1:0"}, {"tcp://127.0.0.1:0", "tcp://127.0.0.1:0"}} {
		a := new(asks)
		require.NoError(t, gnet.Rotate(a, asked))
		require.Error(t, a.err, "%v", asked)
	}
}
