// Package port finds free ports, and takes one for a server on gnet. Each of its event loops may have
// a listener of its own.
package port

import (
	"context"
	"io"
	"net"
	"syscall"
)

type socket interface {
	io.Closer
	syscall.Conn
}

// Claim takes the port of an address, host:port, for the caller alone, and returns the address with
// it; port 0 is any free one. gnet gives each loop a listener of its own by SO_REUSEPORT. With that
// alone a taken port would be no error, and port 0 another port for each loop. The claim is a listener
// like any other until it has the port. Then it shares the port with gnet; close it when gnet listens.
// Until then it must get no connections, since the close would reset them.
func Claim(addr string) (claim net.Listener, claimed string, err error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, "", err
	}
	config := net.ListenConfig{Control: deafen}
	config.SetMultipathTCP(false) // its sockets take no filters
	if claim, err = config.Listen(context.Background(), "tcp", addr); err != nil {
		return nil, "", err
	}
	_, port, _ := net.SplitHostPort(claim.Addr().String()) // net made it
	if err := share(claim.(*net.TCPListener)); err != nil {
		_ = claim.Close()
		return nil, "", err
	}
	return claim, net.JoinHostPort(host, port), nil
}
