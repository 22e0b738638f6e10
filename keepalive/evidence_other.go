//go:build !linux

package keepalive

import "github.com/heartwheel-go/heartwheel/internal/socket"

// socketsTell reports whether sockets know when bytes last arrived. Here they know at most how many
// wait to be read.
const socketsTell = false

// behind is 0: no socket tells.
const behind = 0

func ask(fd uintptr) report {
	r := nothing
	r.unread = socket.Unread(fd)
	r.full = r.unread > 0 && fills(r.unread, socket.ReceiveBuffer(fd))
	return r
}
