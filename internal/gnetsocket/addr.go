// Package gnetsocket does with the sockets of gnet what gnet has no functions for: it asks for the
// address of a listener, and says and sends the last of a connection.
package gnetsocket

import (
	"fmt"
	"net"
	"os"

	"github.com/panjf2000/gnet/v2"
)

// Addr returns the address of an engine with one listener of TCP or Unix sockets. With port 0 gnet
// does not know it. Call it in OnBoot: gnet does not guard its listener against an engine that stops
// meanwhile.
func Addr(eng gnet.Engine) (net.Addr, error) {
	fd, err := eng.Dup()
	if err != nil {
		return nil, fmt.Errorf("duplicating gnet's listener: %w", err)
	}
	file := os.NewFile(uintptr(fd), "gnet listener")
	defer file.Close()
	ln, err := net.FileListener(file)
	if err != nil {
		return nil, fmt.Errorf("asking for the address of gnet's listener: %w", err)
	}
	defer ln.Close()
	return ln.Addr(), nil
}
