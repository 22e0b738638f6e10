// Package udpsocket asks sockets of UDP for the datagrams waiting in them and dropped by them, and for the
// address that a datagram was sent to. Package net has no functions for that.
package udpsocket

import (
	"log/slog"
	"net"
)

// Plenty is more than the datagrams that wait in any socket.
const Plenty = 1 << 20

// IsWildcard reports whether a socket of UDP with this address hears at all addresses of the machine.
func IsWildcard(addr net.Addr) bool {
	a, ok := addr.(*net.UDPAddr)
	return ok && (len(a.IP) == 0 || a.IP.IsUnspecified())
}

// WarnWildcard logs that a socket on a wildcard address can't tell which address a peer has asked.
func WarnWildcard(log *slog.Logger, addr net.Addr, err error) {
	log.Warn("an answer may leave from another address than the peer has asked: with several addresses, listen on each",
		"addr", addr, "err", err)
}
