package keepalive

import (
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

// textAddr is an address of a type unknown to package net.
type textAddr string

func (a textAddr) Network() string { return "text" }
func (a textAddr) String() string  { return string(a) }

// pointerAddr has a String with a panic for a nil pointer.
type pointerAddr struct{ text string }

func (a *pointerAddr) Network() string { return "pointer" }
func (a *pointerAddr) String() string  { return a.text }

func TestKeyOf(t *testing.T) {
	pipe, other := net.Pipe()
	defer pipe.Close()
	defer other.Close()
	ip := net.ParseIP
	for _, c := range []struct {
		addr net.Addr
		want string
	}{
		{&net.TCPAddr{IP: ip("192.0.2.1"), Port: 80}, "192.0.2.1"},
		{&net.TCPAddr{IP: ip("192.0.2.1").To4(), Port: 81}, "192.0.2.1"},
		{&net.TCPAddr{IP: ip("::ffff:192.0.2.1"), Zone: "eth0"}, "192.0.2.1"},
		{&net.TCPAddr{IP: ip("2001:db8:1:2:3:4:5:6"), Port: 80}, "2001:db8:1:2::/64"},
		{&net.TCPAddr{IP: ip("2001:db8:1:2:ffff::1"), Port: 81}, "2001:db8:1:2::/64"},
		{&net.TCPAddr{IP: ip("2001:db8:1:3::1")}, "2001:db8:1:3::/64"},
		{&net.TCPAddr{IP: ip("2001:db8::1")}, "2001:db8::/64"},
		{&net.TCPAddr{IP: ip("fe80::1"), Zone: "eth0"}, "fe80::/64"},
		{&net.TCPAddr{IP: ip("fe80::2"), Zone: "eth1"}, "fe80::/64"},
		{&net.TCPAddr{IP: ip("::1")}, "::/64"},
		{&net.UDPAddr{IP: ip("192.0.2.1"), Port: 80}, "192.0.2.1"},
		{&net.UDPAddr{IP: ip("2001:db8::1"), Zone: "x"}, "2001:db8::/64"},
		{&net.IPAddr{IP: ip("192.0.2.1")}, "192.0.2.1"},
		{&net.IPAddr{IP: ip("2001:db8::1"), Zone: "x"}, "2001:db8::/64"},

		{textAddr("192.0.2.1:80"), "192.0.2.1"},
		{textAddr("192.0.2.1:http"), "192.0.2.1"},
		{textAddr("[::ffff:192.0.2.1]:80"), "192.0.2.1"},
		{textAddr("[2001:db8::1]:80"), "2001:db8::/64"},
		{textAddr("[fe80::1%eth0]:80"), "fe80::/64"},
		{&pointerAddr{"192.0.2.1:80"}, "192.0.2.1"},
		{struct{ net.Addr }{&net.TCPAddr{IP: ip("192.0.2.1")}}, "192.0.2.1"},

		{nil, ""},
		{(*net.TCPAddr)(nil), ""},
		{(*net.UDPAddr)(nil), ""},
		{(*net.IPAddr)(nil), ""},
		{(*net.UnixAddr)(nil), ""},
		{(*pointerAddr)(nil), ""},
		{struct{ net.Addr }{}, ""},
		{&net.TCPAddr{Port: 80}, ""},
		{&net.TCPAddr{IP: net.IP{1, 2, 3}}, ""},
		{&net.IPAddr{}, ""},
		{&net.UnixAddr{Name: "/run/x.sock", Net: "unix"}, ""},
		{&net.UnixAddr{Name: "192.0.2.1:80", Net: "unix"}, ""},
		{&net.IPNet{IP: ip("192.0.2.1"), Mask: net.CIDRMask(24, 32)}, ""},
		{pipe.RemoteAddr(), ""},
		{textAddr(""), ""},
		{textAddr(":80"), ""},
		{textAddr("@"), ""},
		{textAddr("192.0.2.1"), ""},
		{textAddr("2001:db8::1"), ""},
		{textAddr("192.0.2.256:80"), ""},
		{textAddr("example.org:80"), ""},
	} {
		require.Equal(t, c.want, keyOf(c.addr), "%T %#[1]v", c.addr)
	}
}

func FuzzKeyOf(f *testing.F) {
	f.Add("192.0.2.1:80", []byte{192, 0, 2, 1}, "", 80)
	f.Add("[fe80::1%eth0]:80", []byte(net.ParseIP("fe80::1")), "eth0", -1)
	f.Add("[::ffff:192.0.2.1]:80", []byte(net.ParseIP("192.0.2.1")), "x", 1<<20)
	f.Add("[::]", []byte{1, 2, 3}, "]:", 0)
	f.Fuzz(func(t *testing.T, text string, ip []byte, zone string, port int) {
		requireKey(t, keyOf(textAddr(text)))

		want := keyOfIP(ip)
		requireKey(t, want)
		require.Equal(t, want, keyOf(&net.TCPAddr{IP: ip, Zone: zone, Port: port}))
		require.Equal(t, want, keyOf(&net.UDPAddr{IP: ip, Zone: zone, Port: port}))
		require.Equal(t, want, keyOf(&net.IPAddr{IP: ip, Zone: zone}))
		require.Equal(t, want, keyOf(textAddr((&net.TCPAddr{IP: ip, Port: port}).String())))
	})
}

// keyOfIP is keyOf by other means.
func keyOfIP(ip net.IP) string {
	if v4 := ip.To4(); v4 != nil {
		return v4.String()
	}
	if len(ip) != net.IPv6len {
		return ""
	}
	return fmt.Sprintf("%v/64", ip.Mask(net.CIDRMask(64, 128)))
}

// requireKey checks for an empty key, an IPv4 address, or a /64, each as it is usually written.
func requireKey(t *testing.T, key string) {
	if key == "" {
		return
	}
	if ip, err := netip.ParseAddr(key); err == nil {
		require.True(t, ip.Is4(), key)
		require.Equal(t, ip.String(), key)
		return
	}
	network, err := netip.ParsePrefix(key)
	require.NoError(t, err)
	require.Equal(t, 64, network.Bits())
	require.True(t, network.Addr().Is6(), key)
	require.Equal(t, network.Masked().String(), key)
}

func BenchmarkKeyOf(b *testing.B) {
	for _, addr := range []net.Addr{
		&net.TCPAddr{IP: net.ParseIP("192.0.2.1"), Port: 80},
		&net.TCPAddr{IP: net.ParseIP("2001:db8:1:2:3:4:5:6"), Port: 80},
	} {
		b.Run("key="+keyOf(addr), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				keyOf(addr)
			}
		})
	}
}
