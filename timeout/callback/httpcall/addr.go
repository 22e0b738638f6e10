package httpcall

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"
)

// ErrRefused refuses a target to this Caller. The error wrapping it names the address or host,
// and the kind of address.
var ErrRefused = errors.New("httpcall: target refused")

// special is a part of the address space not open to everybody.
type special struct {
	what     string
	prefixes []netip.Prefix
}

// metadata are clouds' addresses outside of link-local, for the credentials of their machines. AWS also
// has the credentials of pods (EKS) in its part of IPv6.
var metadata = special{"cloud metadata", prefixes(
	"100.100.100.200/32", "fd00:100::100:200/128", // Alibaba
	"fd00:ec2::/32",                            // AWS
	"168.63.129.16/32",                         // Azure
	"fd20:ce::254/128",                         // Google
	"fd00:a9fe:a9fe::1/128",                    // Linode
	"192.0.0.192/32", "fd00:c1::a9fe:a9fe/128", // Oracle
	"fd00:42::42/128", // Scaleway
)}

// private are the networks for AllowPrivate. 100.64.0.0/10 is for carriers (RFC 6598), and some
// clouds use it like the others.
var private = special{"private", prefixes("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")}

// specials are the other networks not globally reachable by the registries of IANA (RFC 6890),
// and the tunnels with an IPv4 address hidden in theirs.
var specials = []special{
	{"unspecified", prefixes("0.0.0.0/8", "::/128")},
	{"loopback", prefixes("127.0.0.0/8", "::1/128")},
	{"link-local", prefixes("169.254.0.0/16", "fe80::/10")},
	{"multicast", prefixes("224.0.0.0/4", "ff00::/8")},
	{"reserved", prefixes("240.0.0.0/4", "192.0.0.0/24", "198.18.0.0/15", "2001::/23", "64:ff9b:1::/48")},
	{"for documentation", prefixes("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20")},
	{"of a tunnel", prefixes("192.88.99.0/24", "2002::/16")},
}

// global is the part of IPv6 for global addresses (RFC 4291).
var global = netip.MustParsePrefix("2000::/3")

// nat64 holds the IPv4 addresses in IPv6-only networks (RFC 6052).
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

func prefixes(texts ...string) []netip.Prefix {
	list := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		list[i] = netip.MustParsePrefix(text)
	}
	return list
}

func (s special) contains(ip netip.Addr) bool {
	return slices.ContainsFunc(s.prefixes, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// guard decides about dialing an address.
type guard struct {
	allow   []netip.Prefix
	private bool
}

// control is for net.Dialer.ControlContext. The dialer calls it with each address to dial,
// after names were resolved and before anything is sent.
func (g guard) control(_ context.Context, _, address string, _ syscall.RawConn) error {
	addr, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: address %.100q: %w", ErrRefused, address, err)
	}
	return g.check(addr.Addr())
}

// check returns an error wrapping ErrRefused if the address may not be called.
func (g guard) check(ip netip.Addr) error {
	ip = ip.Unmap().WithZone("")
	if slices.ContainsFunc(g.allow, func(p netip.Prefix) bool { return p.Contains(ip) }) {
		return nil
	}
	if nat64.Contains(ip) {
		raw := ip.As16()
		return g.check(netip.AddrFrom4([4]byte(raw[12:])))
	}
	if metadata.contains(ip) {
		return refused(ip, metadata.what)
	}
	if private.contains(ip) {
		if g.private {
			return nil
		}
		return fmt.Errorf("%w (or AllowPrivate)", refused(ip, private.what))
	}
	for _, s := range specials {
		if s.contains(ip) {
			return refused(ip, s.what)
		}
	}
	if ip.Is6() && !global.Contains(ip) {
		return refused(ip, "not global")
	}
	return nil
}

func refused(ip netip.Addr, what string) error {
	return fmt.Errorf("%w: address %v is %s, must be public or in Allow", ErrRefused, ip, what)
}
