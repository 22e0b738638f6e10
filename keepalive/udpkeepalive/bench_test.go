package udpkeepalive

import (
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// BenchmarkHeard is what a datagram costs, without the kernel's part.
func BenchmarkHeard(b *testing.B) {
	for name, room := range map[string]keepalive.Room{
		"known":           {},
		"new":             {},
		"refused/all":     {MaxConns: 1},
		"refused/address": {MaxPerKey: 1},
	} {
		b.Run("session="+name, func(b *testing.B) {
			k, err := keepalive.New(keepalive.Config{Room: room})
			require.NoError(b, err)
			defer k.Close()
			s := New[int](newFake(), k)
			defer s.Close()
			_, err = s.Heard(Path{Peer: alice})
			require.NoError(b, err)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				peer := netip.AddrPortFrom(alice.Addr(), uint16(i)|1)
				if name == "known" {
					peer = alice
				}
				session, err := s.Heard(Path{Peer: peer})
				if name == "new" && err == nil {
					_ = session.Close()
				}
			}
		})
	}
}

// BenchmarkEcho is a datagram and its answer, with the client's part, on an address and on all of them.
func BenchmarkEcho(b *testing.B) {
	for _, addr := range []string{"127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0"} {
		b.Run(fmt.Sprintf("addr=%s", addr), func(b *testing.B) {
			k, err := keepalive.New(keepalive.Config{})
			require.NoError(b, err)
			defer k.Close()
			network := "udp4"
			if addr[0] == '[' {
				network = "udp6"
			}
			socket, err := net.ListenPacket(network, addr)
			require.NoError(b, err)
			conn := Wrap[int](socket.(*net.UDPConn), k)
			defer conn.Close()
			c, err := net.Dial("udp", conn.LocalAddr().String())
			require.NoError(b, err)
			defer c.Close()
			b.ReportAllocs()
			for buf := make([]byte, 100); b.Loop(); {
				_, _ = c.Write(buf[:10])
				n, session, err := conn.Read(buf)
				require.NoError(b, err)
				_, _ = session.Write(buf[:n])
				_, _ = c.Read(buf)
			}
		})
	}
}
