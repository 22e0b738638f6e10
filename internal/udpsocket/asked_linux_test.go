package udpsocket

import (
	"net/netip"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// message6 is what the kernel writes for a datagram to an address at an interface.
func message6(addr string, ifindex uint32) []byte {
	return unix.PktInfo6(&unix.Inet6Pktinfo{Addr: netip.MustParseAddr(addr).As16(), Ifindex: ifindex})
}

// message4 is the same for IPv4. source differs from addr for a broadcast and a multicast.
func message4(addr, source string) []byte {
	return unix.PktInfo4(&unix.Inet4Pktinfo{
		Addr: netip.MustParseAddr(addr).As4(), Spec_dst: netip.MustParseAddr(source).As4(), Ifindex: 3,
	})
}

func TestTheAskedAddressIsReadFromTheMessages(t *testing.T) {
	other := make([]byte, unix.CmsgSpace(4))
	h := (*unix.Cmsghdr)(unsafe.Pointer(&other[0]))
	h.Level, h.Type = unix.SOL_SOCKET, unix.SO_RXQ_OVFL
	h.SetLen(unix.CmsgLen(4))
	join := func(messages ...[]byte) (all []byte) {
		for _, m := range messages {
			all = append(all, m...)
		}
		return all
	}
	for name, tests := range map[string]struct {
		control []byte
		want    string
	}{
		"nothing":                   {nil, ""},
		"garbage":                   {[]byte{1, 2, 3}, ""},
		"another message":           {other, ""},
		"IPv4":                      {message4("192.0.2.1", "192.0.2.1"), "192.0.2.1"},
		"IPv4 behind others":        {join(other, message4("192.0.2.1", "192.0.2.1")), "192.0.2.1"},
		"IPv4 without a source":     {message4("192.0.2.1", "0.0.0.0"), ""},
		"broadcast":                 {message4("192.0.2.255", "192.0.2.1"), "192.0.2.1"},
		"broadcast on IPv6":         {join(message6("::ffff:192.0.2.255", 3), message4("192.0.2.255", "192.0.2.1")), "192.0.2.1"},
		"multicast of IPv4":         {message4("224.0.0.1", "192.0.2.1"), "192.0.2.1"},
		"IPv4 mapped":               {message6("::ffff:192.0.2.1", 3), "192.0.2.1"},
		"link-local IPv4, mapped":   {message6("::ffff:169.254.0.1", 3), "169.254.0.1"},
		"IPv6":                      {message6("2001:db8::1", 3), "2001:db8::1"},
		"link-local IPv6":           {message6("fe80::1", 3), "fe80::1%3"},
		"multicast of IPv6":         {message6("ff02::1", 3), ""},
		"multicast of IPv4, mapped": {message6("::ffff:224.0.0.1", 3), ""},
		"cut in the middle":         {message6("2001:db8::1", 3)[:unix.CmsgLen(8)], ""},
		"cut behind one":            {join(message6("2001:db8::1", 3), other[:5]), "2001:db8::1"},
	} {
		t.Run(name, func(t *testing.T) {
			var want netip.Addr
			if tests.want != "" {
				want = netip.MustParseAddr(tests.want)
			}
			require.Equal(t, want, Asked(tests.control))
		})
	}
}

func TestAnAddressToSendFromIsOneMessage(t *testing.T) {
	for addr, want := range map[string][]byte{
		"192.0.2.1":        message4("0.0.0.0", "192.0.2.1"),
		"::ffff:192.0.2.1": message4("0.0.0.0", "192.0.2.1"),
		"2001:db8::1":      message6("2001:db8::1", 0),
		"fe80::1%3":        message6("fe80::1", 3),
		"fe80::1%lo":       message6("fe80::1", 1),
		"fe80::1%missing":  message6("fe80::1", 0),
	} {
		if len(want) == unix.CmsgSpace(unix.SizeofInet4Pktinfo) { // the kernel chooses the interface
			*(*int32)(unsafe.Pointer(&want[unix.CmsgLen(0)])) = 0
		}
		var f From
		require.Equal(t, want, f.Addr(netip.MustParseAddr(addr)), addr)
	}
}
