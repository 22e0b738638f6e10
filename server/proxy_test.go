package server

import (
	"io"
	"net"
	"net/netip"
	"testing"

	"github.com/panjf2000/gnet/v2"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/proxyprotocol"
)

const (
	alice = "PROXY TCP4 192.0.2.1 192.0.2.9 1111 80\r\n"
	bob   = "PROXY TCP6 2001:db8::b 2001:db8::9 2222 80\r\n"
)

var aProxyHere = proxyprotocol.Config{Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}

// whoAmI answers each line with the address of its peer.
func whoAmI(c gnet.Conn, _ []byte) ([]byte, bool) { return []byte(c.RemoteAddr().String()), true }

func TestClientsBehindAProxy(t *testing.T) {
	t.Parallel()
	for name, ln := range map[string]net.Listener{"address": nil, "listener": listen(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, Config{Listener: ln, Proxies: aProxyHere, Line: whoAmI, Config: keepalive.Config{
				Tick: 10 * ms, FirstMessage: timeout, Room: keepalive.Room{MaxPerKey: 1},
			}})
			first := r.dial(t)
			require.Equal(t, "192.0.2.1:1111\n", ask(t, first, alice+"who\n"))
			require.Equal(t, "[2001:db8::b]:2222\n", ask(t, r.dial(t), bob+"who\n"))
			require.Equal(t, refusedFull, after(t, r.dial(t), alice))
			silent, slow := r.dial(t), r.dial(t)
			_, err := io.WriteString(slow, alice[:20])
			require.NoError(t, err)
			for _, c := range []net.Conn{silent, slow} {
				require.Equal(t, "BYE first message timeout "+timeout.String()+"\n", rest(t, c))
			}
			require.Equal(t, "192.0.2.1:1111\n", ask(t, first, "who\n"))
		})
	}
}

// after returns the rest of a connection after something was said.
func after(t testing.TB, c net.Conn, says string) string {
	_, err := io.WriteString(c, says)
	require.NoError(t, err)
	return rest(t, c)
}

func TestStrangersWithAHeader(t *testing.T) {
	elsewhere := proxyprotocol.Config{Trusted: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}
	r := start(t, Config{Proxies: elsewhere, Line: whoAmI})
	c := r.dial(t)
	_, _ = io.WriteString(c, alice+"who\n")
	n, _ := io.Copy(io.Discard, c)
	require.Zero(t, n)

	elsewhere.Optional = true
	r = start(t, Config{Proxies: elsewhere, Line: whoAmI})
	c = r.dial(t)
	require.Equal(t, c.LocalAddr().String()+"\r\n", ask(t, c, alice), "it is a line")
}

func TestProxiesOfAConfig(t *testing.T) {
	for want, proxies := range map[string]proxyprotocol.Config{
		"server: invalid argument: Proxies.Optional without Proxies.Trusted":                                                                  {Optional: true},
		"server: invalid argument: Proxies: proxyprotocol: invalid argument: Trusted[0] invalid Prefix, must be a network such as 10.0.0.0/8": {Trusted: make([]netip.Prefix, 1)},
	} {
		err := Config{Proxies: proxies}.Validate()
		require.ErrorIs(t, err, ErrArgument)
		require.EqualError(t, err, want)
	}
	r := start(t, Config{Proxies: aProxyHere})
	require.NoError(t, r.Update(Config{}))
	require.NoError(t, r.Update(r.Config()))
	require.Equal(t, aProxyHere, r.Config().Proxies)
	more := aProxyHere
	more.Optional = true
	require.EqualError(t, r.Update(Config{Proxies: more}), "server: invalid argument: Proxies {[127.0.0.1/32] true}, can't be changed from {[127.0.0.1/32] false}")
}
