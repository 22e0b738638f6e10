package gnetkeepalive

import (
	"os"

	"github.com/panjf2000/gnet/v2"

	"github.com/heartwheel-go/heartwheel/internal/socket"
	"github.com/heartwheel-go/heartwheel/keepalive"
)

// RefusingHandler is an event handler with last words for a refused connection, if there are
// too many (keepalive.ReasonFull) or the server is going down (keepalive.ReasonDrain). The
// handler hears nothing else of such a connection. OnRefuse takes the place of keepalive.Config.OnRefuse, and its words are
// written at once, before the close.
type RefusingHandler interface {
	OnRefuse(c gnet.Conn, reason keepalive.Reason) (out []byte)
}

// refused is in the SafeContext of a refused connection.
type refused struct{}

// refuse closes a connection after its last words. asked says that its peer has said something.
//
// A close with unread bytes would reset the connection, and take the words away. So the Keeper gets a descriptor of its own, and
// gnet's is closed at once.
func (h *handler) refuse(c gnet.Conn, reason keepalive.Reason, asked bool) (out []byte, action gnet.Action) {
	h.loops.leave(c.EventLoop())
	c.SetSafeContext(refused{})
	if inner, ok := h.EventHandler.(RefusingHandler); ok {
		return inner.OnRefuse(c, reason), gnet.Close
	}
	words := h.keeper.Binder().LastWords(c, reason)
	if len(words) == 0 || !socket.CanTry {
		return words, gnet.Close
	}
	fd, err := c.Dup()
	if err != nil {
		return words, gnet.Close
	}
	h.keeper.Binder().SayLastWords(os.NewFile(uintptr(fd), ""), words, asked)
	return nil, gnet.Close
}
