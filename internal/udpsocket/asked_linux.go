package udpsocket

import (
	"net"
	"net/netip"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TellAsked makes the kernel tell, with each datagram, which address of this machine it was sent to: see Asked.
// It is for a socket on a wildcard address.
func TellAsked(fd uintptr, ipv6 bool) error {
	err := unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_PKTINFO, 1)
	if ipv6 { // then IPv4 may be off
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
	}
	return err
}

// Asked returns the address of this machine that a datagram was sent to, from the datagram's control messages.
// For a broadcast, or a multicast of IPv4, it is the address of the interface. It is zero for a multicast of IPv6,
// and without such a message. A link-local address has the index of its interface as its zone.
//
// For IPv4 in a socket of IPv6 there are two messages, and only that of IPv4 knows a broadcast.
func Asked(control []byte) (asked netip.Addr) {
	for len(control) >= unix.SizeofCmsghdr {
		head, data, rest, err := unix.ParseOneSocketControlMessage(control)
		if err != nil {
			return asked
		}
		control = rest
		switch {
		case head.Level == unix.IPPROTO_IP && head.Type == unix.IP_PKTINFO && len(data) >= unix.SizeofInet4Pktinfo:
			info := (*unix.Inet4Pktinfo)(unsafe.Pointer(&data[0]))
			return source(netip.AddrFrom4(info.Spec_dst))
		case head.Level == unix.IPPROTO_IPV6 && head.Type == unix.IPV6_PKTINFO && len(data) >= unix.SizeofInet6Pktinfo:
			info := (*unix.Inet6Pktinfo)(unsafe.Pointer(&data[0]))
			asked = source(netip.AddrFrom16(info.Addr).Unmap())
			if asked.IsLinkLocalUnicast() && asked.Is6() {
				asked = asked.WithZone(strconv.Itoa(int(info.Ifindex)))
			}
		}
	}
	return asked
}

// source returns an address, or zero if nothing can be sent from it.
func source(a netip.Addr) netip.Addr {
	if a.IsUnspecified() || a.IsMulticast() {
		return netip.Addr{}
	}
	return a
}

// From is room for a control message.
type From struct {
	v4 struct {
		unix.Cmsghdr
		unix.Inet4Pktinfo
	}
	v6 struct {
		unix.Cmsghdr
		unix.Inet6Pktinfo
	}
}

// Addr returns the control message to send a datagram from an address of this machine.
func (f *From) Addr(a netip.Addr) []byte {
	if a = a.Unmap(); a.Is4() {
		m := &f.v4
		m.Level, m.Type = unix.IPPROTO_IP, unix.IP_PKTINFO
		m.SetLen(unix.CmsgLen(unix.SizeofInet4Pktinfo))
		m.Spec_dst = a.As4()
		return unsafe.Slice((*byte)(unsafe.Pointer(m)), unsafe.Sizeof(*m))
	}
	m := &f.v6
	m.Level, m.Type = unix.IPPROTO_IPV6, unix.IPV6_PKTINFO
	m.SetLen(unix.CmsgLen(unix.SizeofInet6Pktinfo))
	m.Addr, m.Ifindex = a.As16(), index(a.Zone())
	return unsafe.Slice((*byte)(unsafe.Pointer(m)), unsafe.Sizeof(*m))
}

// index returns the index of a zone's interface, or 0.
func index(zone string) uint32 {
	if zone == "" {
		return 0
	}
	if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
		return uint32(n)
	}
	if i, err := net.InterfaceByName(zone); err == nil {
		return uint32(i.Index)
	}
	return 0
}
