// Package proxyprotocol is the PROXY protocol for servers on event loops: a load balancer begins each connection with a
// header that names its client. Then Room.MaxPerKey of the keepalive.Config, logs and RemoteAddr are about clients, and not
// about the balancer. Versions 1 and 2 are understood.
//
//	handler, err := gnetkeepalive.WrapProxied(handler, k, proxyprotocol.Config{
//		Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
//	})
//
// Package gnetkeepalive, nbiokeepalive, nbhttpkeepalive and server take a [Config]. For net there are libraries, see
// keepalive.Room.Key: this package is for frameworks that hand over bytes as they come.
//
// # What becomes of a connection
//
// A connection counts in Room.MaxConns from its beginning, and in Room.MaxPerKey from the end of its header on. The bytes of
// the header are no life, and the program hears of nobody before their end: FirstMessage, or else Timeout, of the
// keepalive.Config is the time for the header and the client's first bytes together. If too many connections of a client are
// open, this one ends as at its beginning, for keepalive.ReasonFull. A connection is closed if its header is wrong, or
// longer than [MaxSize]. The first one closed for a header, or for the lack of one, is logged at Warn, and later ones at Debug.
//
// RemoteAddr of the framework's connection is the client's address then. Only the connections of a Unix socket can't have
// another one there; keepalive.Guard.RemoteAddr knows the client's. A header without a client, for a health check of
// the balancer's own (LOCAL, UNKNOWN), leaves the address as it is, and such a connection does not count in MaxPerKey.
//
// The functions of the keepalive.Config, such as OnIdle and OnClose, may get a connection that ends before its header has
// come: the program has never seen it, and Context is what it was.
//
// # When not to use this package
//
// Not without a proxy that sends a header for each connection, its own included: whoever may write the header may claim
// to be anybody.
package proxyprotocol

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/heartwheel-go/heartwheel/internal/argument"
)

var (
	// ErrArgument says that a field of the config is out of bounds. The wrapping error names its value and the limit.
	ErrArgument error = argument.Error("proxyprotocol")

	// ErrUntrusted says that a connection comes from an address outside of Config.Trusted.
	ErrUntrusted = errors.New("proxyprotocol: the source is none of the trusted networks")

	// ErrNoHeader says that a connection does not begin with a header.
	ErrNoHeader = errors.New("proxyprotocol: no header")

	// ErrHeader says that a header is wrong, or too long.
	ErrHeader = errors.New("proxyprotocol: invalid header")
)

const (
	// MaxSize is the longest header, in bytes: 16, and 4096 for the addresses and additions of version 2. A client's
	// certificate takes some 2000 of them.
	MaxSize = fixed + maxRest

	maxRest = 4096
	maxLine = 107 // of version 1, with its end
	fixed   = 16  // bytes of version 2 before the addresses
)

// Config says who sends headers. The zero value is for nobody, and only package server takes it: no headers.
type Config struct {
	// Trusted are the networks of the proxies. There must be at least one, such as 10.0.0.0/8, or 192.0.2.7/32 for a
	// single proxy. Their headers are believed. A Unix socket has no network: whoever may connect to it is trusted.
	Trusted []netip.Prefix

	// Optional lets connections in without a header, as what they are: all from elsewhere, whose headers are the
	// program's bytes, and those from a trusted network that begin with anything else. The latter are known after their
	// first byte only, so the program does not speak first. False closes both.
	Optional bool
}

// IsZero reports whether nothing is set.
func (c Config) IsZero() bool { return len(c.Trusted) == 0 && !c.Optional }

// Validate returns an error that wraps [ErrArgument] if the config is impossible.
func (c Config) Validate() error {
	if len(c.Trusted) == 0 {
		return fmt.Errorf("%w: Trusted is empty, must have the networks of the proxies", ErrArgument)
	}
	for i, network := range c.Trusted {
		switch {
		case !network.IsValid():
			return fmt.Errorf("%w: Trusted[%d] %v, must be a network such as 10.0.0.0/8", ErrArgument, i, network)
		case network.Addr().Is4In6():
			return fmt.Errorf("%w: Trusted[%d] %v, must be the IPv4 network itself, without ::ffff: before it", ErrArgument, i, network)
		}
	}
	return nil
}

// Header is what stands at the beginning of a connection.
type Header struct {
	Source net.Addr // of the client, a *net.TCPAddr or *net.UnixAddr, or nil if the header has none
	Size   int      // in bytes, at most MaxSize
}

var signature = []byte("\r\n\r\n\x00\r\nQUIT\n")

// Parse returns the header at the beginning of b, the bytes of a connection so far. If whole is false and err nil, it takes
// more bytes to say. An error wraps [ErrNoHeader] or [ErrHeader]. Parse keeps nothing of b.
func Parse(b []byte) (h Header, whole bool, err error) {
	switch line := []byte("PROXY "); {
	case bytes.HasPrefix(b, signature):
		return parseBinary(b)
	case bytes.HasPrefix(b, line):
		return parseLine(b)
	case bytes.HasPrefix(signature, b), bytes.HasPrefix(line, b):
		return h, false, nil
	}
	return h, false, fmt.Errorf("%w: it begins with %.16q", ErrNoHeader, b)
}

// parseLine parses version 1, "PROXY TCP4 192.0.2.1 192.0.2.2 1111 80\r\n".
func parseLine(b []byte) (h Header, whole bool, err error) {
	b = b[:min(len(b), maxLine)]
	end := bytes.IndexByte(b, '\n')
	switch {
	case end < 0 && len(b) < maxLine:
		return h, false, nil
	case end < 0:
		return h, false, fmt.Errorf("%w: a line of more than %d bytes", ErrHeader, maxLine)
	case b[end-1] != '\r':
		return h, false, fmt.Errorf("%w: %q does not end with CR LF", ErrHeader, b[:end+1])
	}
	h.Size = end + 1
	fields := strings.Split(string(b[:end-1]), " ")
	if fields[1] == "UNKNOWN" { // whatever follows
		return h, true, nil
	}
	if h.Source, err = clientOf(fields); err != nil {
		return Header{}, false, fmt.Errorf("%w: %q: %w", ErrHeader, b[:end-1], err)
	}
	return h, true, nil
}

// clientOf returns the client in a line. The rest of it must make sense, too.
func clientOf(fields []string) (net.Addr, error) {
	if len(fields) != 6 || fields[1] != "TCP4" && fields[1] != "TCP6" {
		return nil, errors.New("must be UNKNOWN, or TCP4 or TCP6 with two addresses and two ports")
	}
	var client [2]netip.AddrPort
	for i := range client {
		ip, err := netip.ParseAddr(fields[2+i])
		if err != nil || ip.Zone() != "" || ip.Is4() != (fields[1] == "TCP4") {
			return nil, fmt.Errorf("address %q is none of %s", fields[2+i], fields[1])
		}
		port, err := strconv.ParseUint(fields[4+i], 10, 16)
		if err != nil || strconv.FormatUint(port, 10) != fields[4+i] {
			return nil, fmt.Errorf("port %q, must be a number from 0 to 65535", fields[4+i])
		}
		client[i] = netip.AddrPortFrom(ip, uint16(port))
	}
	return net.TCPAddrFromAddrPort(client[0]), nil
}

// parseBinary parses version 2. Additions behind the addresses are skipped.
func parseBinary(b []byte) (h Header, whole bool, err error) {
	if len(b) < fixed {
		return h, false, nil
	}
	command, family := b[12], b[13]
	rest := int(binary.BigEndian.Uint16(b[14:]))
	least, known := map[byte]int{0x00: 0, 0x11: 12, 0x12: 12, 0x21: 36, 0x22: 36, 0x31: 216, 0x32: 216}[family]
	switch {
	case command != 0x20 && command != 0x21:
		return h, false, fmt.Errorf("%w: version and command 0x%02x, must be 0x20 or 0x21", ErrHeader, command)
	case !known:
		return h, false, fmt.Errorf("%w: family and protocol 0x%02x are unknown", ErrHeader, family)
	case rest > maxRest:
		return h, false, fmt.Errorf("%w: length %d, must be at most %d", ErrHeader, rest, maxRest)
	case command == 0x21 && rest < least:
		return h, false, fmt.Errorf("%w: length %d, must be at least %d", ErrHeader, rest, least)
	case len(b) < fixed+rest:
		return h, false, nil
	}
	h.Size = fixed + rest
	if b = b[fixed:h.Size]; command == 0x21 {
		h.Source = sourceOf(family, b)
	}
	return h, true, nil
}

// sourceOf returns the client in the addresses of version 2.
func sourceOf(family byte, b []byte) net.Addr {
	switch family >> 4 {
	case 1:
		return &net.TCPAddr{IP: bytes.Clone(b[:4]), Port: int(binary.BigEndian.Uint16(b[8:]))}
	case 2:
		return &net.TCPAddr{IP: bytes.Clone(b[:16]), Port: int(binary.BigEndian.Uint16(b[32:]))}
	case 3:
		name, _, _ := bytes.Cut(b[:108], []byte{0})
		return &net.UnixAddr{Name: string(name), Net: "unix"}
	}
	return nil
}
