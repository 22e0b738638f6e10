// Package gnetaddr finds out on which address a gnet engine listens, which
// matters with port 0. gnet itself only knows what it was asked for.
package gnetaddr

import (
	"fmt"
	"net"
	"os"

	"github.com/panjf2000/gnet/v2"
)

// Of returns the address of an engine with one listener of TCP or Unix sockets.
// It is to be called in OnBoot: gnet does not guard its listener against an
// engine that stops meanwhile.
func Of(eng gnet.Engine) (net.Addr, error) {
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
