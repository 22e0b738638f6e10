package testserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
)

const (
	// Ports are below the kernel's range for connections (32768 and up on Linux). A connection
	// could take a port of that range while the server is away. Also, a client dialing such a
	// port again and again ends up connected to itself.
	firstPort, lastPort = 10_000, 19_999

	// busOffset is the distance from the port of a server to its port for other nodes, if it has one.
	// That port is not reserved, so it must be the reserved port of no other server.
	busOffset = 10_000
)

// reserve returns a free port. Other tests do not get it until guard is closed, even while
// nobody listens there.
func reserve() (port int, guard io.Closer, err error) {
	for range 100 {
		port = firstPort + rand.IntN(lastPort-firstPort+1)
		// Nobody here speaks UDP. So a bound UDP port of the same number marks the port as taken.
		guard, err = net.ListenPacket("udp4", address(port))
		if err != nil {
			continue
		}
		if err = errors.Join(unused(port), unused(port+busOffset)); err == nil {
			return port, guard, nil
		}
		guard.Close()
	}
	return 0, nil, fmt.Errorf("testserver: no free port found: %w", err)
}

func unused(port int) error {
	l, err := net.Listen("tcp4", address(port))
	if err != nil {
		return err
	}
	return l.Close()
}

// dial connects to a server, with the deadline of ctx.
func dial(ctx context.Context, addr string) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	return conn, nil
}

func address(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
