package udpkeepalive

import (
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
			_, err = s.Heard(alice)
			require.NoError(b, err)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				peer := netip.AddrPortFrom(alice.Addr(), uint16(i)|1)
				if name == "known" {
					peer = alice
				}
				session, err := s.Heard(peer)
				if name == "new" && err == nil {
					_ = session.Close()
				}
			}
		})
	}
}
