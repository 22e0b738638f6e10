package gnetkeepalive

import (
	"net"

	"github.com/panjf2000/gnet/v2"

	"github.com/heartwheel-go/heartwheel/internal/gnetsocket"
)

// Addr returns the address of an engine with one listener of TCP or Unix sockets. gnet itself knows
// only the requested address, such as 127.0.0.1:0. Call Addr in OnBoot, and not later: then the engine
// can not stop meanwhile. It returns an error for an engine with several listeners, and for UDP. With
// gnet.WithReusePort and port 0 each event loop has a port of its own, and Addr returns one of them.
func Addr(eng gnet.Engine) (net.Addr, error) { return gnetsocket.Addr(eng) }
