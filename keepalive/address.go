package keepalive

import (
	"net"
	"net/netip"
)

// networkBits is the part of an IPv6 address that belongs to one customer. A provider gives
// each customer a /64 at least (RFC 6177, RIPE-690), with as many addresses as they like.
const networkBits = 64

// keyOf returns what connections from addr are counted by, unless Room.Key says otherwise: an
// IPv4 address whole, as "192.0.2.1", also if it is mapped into IPv6, and the /64 of an IPv6
// address, as "2001:db8:1:2::/64". The port and the zone are left out.
//
// The key of an address of a foreign type comes from its String, if String gives an IP address
// and a port. Everything else has the empty key, without a limit: a Unix socket, a pipe, a name
// instead of an address, nil, a nil pointer, and an address with a panicking String.
//
// Different clients may share a key: behind one IPv4 address, behind a NAT64 with all of them
// in one prefix (as 64:ff9b::/96), and on a link (fe80::/64). And one client may have several
// keys: 256 with a /56, and 65,536 with a /48.
func keyOf(addr net.Addr) string {
	ip := ipOf(addr).Unmap()
	if !ip.IsValid() {
		return ""
	}
	if ip.Is4() {
		return ip.String()
	}
	return netip.PrefixFrom(ip, networkBits).Masked().String()
}

// ipOf returns the IP address in addr, or the zero Addr.
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
		return netip.Addr{} // the client chose its text, perhaps "192.0.2.1:80"
	}
	host, _, _ := net.SplitHostPort(textOf(addr)) // or "", no address
	ip, _ := netip.ParseAddr(host)
	return ip
}

// textOf returns addr as text, or nothing if addr is nil or its String panics, as it often
// does for a nil pointer: a server must not end because of an address.
func textOf(addr net.Addr) (text string) {
	defer func() { _ = recover() }()
	return addr.String()
}
