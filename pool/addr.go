package pool

import (
	"net"
	"net/netip"
)

// networkBits is how much of an IPv6 address says whose it is: a provider gives each
// customer a /64 at least (RFC 6177, RIPE-690), within which they can have as many
// addresses as they like.
const networkBits = 64

// KeyOf returns whom connections from addr are counted for, in [Shares], where
// nobody says otherwise: an IPv4 address whole, as "192.0.2.1", also where it is
// mapped into IPv6, and of an IPv6 address the /64, as "2001:db8:1:2::/64". The port
// and the zone are left out.
//
// An address of another type than those of package net counts as what its String
// returns, if that is an IP address and a port. Everything else has the empty key,
// which means that there is no limit: a Unix socket, a pipe, a name instead of an
// address, nil, a nil pointer, and a String that panics.
//
// Some share a key who are not the same client: those behind one IPv4 address, those
// who come through a NAT64 that keeps them all in one prefix (as 64:ff9b::/96), and
// the neighbours on a link (fe80::/64). And a client may have several keys: one with
// a /56 has 256, one with a /48 has 65,536.
//
// It may be called by several goroutines at the same time.
func KeyOf(addr net.Addr) string {
	ip := ipOf(addr).Unmap()
	if !ip.IsValid() {
		return ""
	}
	if ip.Is4() {
		return ip.String()
	}
	return netip.PrefixFrom(ip, networkBits).Masked().String()
}

// ipOf returns the IP address in addr, or the zero Addr where there is none.
func ipOf(addr net.Addr) netip.Addr {
	switch a := addr.(type) {
	case *net.TCPAddr:
		return a.AddrPort().Addr() // also of a nil pointer
	case *net.UDPAddr:
		return a.AddrPort().Addr()
	case *net.IPAddr:
		if a == nil {
			return netip.Addr{}
		}
		ip, _ := netip.AddrFromSlice(a.IP)
		return ip
	case *net.UnixAddr:
		return netip.Addr{} // its text is what the client chose, and may be "192.0.2.1:80"
	}
	host, _, err := net.SplitHostPort(textOf(addr))
	if err != nil {
		return netip.Addr{}
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	return ip
}

// textOf returns addr as text, or nothing where addr is nil, or has a String that
// panics, as many do for a nil pointer: a server must not end because of an address.
func textOf(addr net.Addr) (text string) {
	defer func() {
		if recover() != nil {
			text = ""
		}
	}()
	return addr.String()
}
