package server

import (
	"sync"

	"github.com/panjf2000/gnet/v2"

	"github.com/heartwheel-go/heartwheel/internal/gnetsocket"
	"github.com/heartwheel-go/heartwheel/internal/protocol"
	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/adapter"
)

// handler is gnet's side of a Server. It handles a connection in the connection's event loop.
type handler struct {
	gnet.BuiltinEventEngine
	*Server
	answers sync.Pool // of *[]byte
}

func newHandler(s *Server) *handler { return &handler{Server: s} }

// session is the Context of a connection with something to remember: most have nothing.
type session struct {
	protocol.Lines
	lingering bool // the last word is said, and later bytes are dropped
	dropped   int  // bytes
}

// OnBoot publishes the address. gnet's sockets listen by then.
func (h *handler) OnBoot(eng gnet.Engine) gnet.Action {
	if h.listener != nil {
		return gnet.None // its address is known
	}
	addr, err := gnetsocket.Addr(eng)
	if err != nil {
		h.log.Error("server: no address", "error", err)
		return gnet.Shutdown
	}
	_ = h.claim.Close() // before anybody hears of the address: it must not get connections
	h.engine = eng
	h.listening(addr)
	return gnet.None
}

// OnOpen remembers the loops with connections, for Health.
func (h *handler) OnOpen(c gnet.Conn) (out []byte, action gnet.Action) {
	loop := c.EventLoop()
	if _, ok := h.loops.Load(loop); !ok {
		h.loops.Store(loop, nil)
	}
	return nil, gnet.None
}

// OnRefuse returns the last words to a connection without room. gnetkeepalive calls it.
func (h *handler) OnRefuse(_ gnet.Conn, reason keepalive.Reason) []byte {
	if reason == keepalive.ReasonDrain {
		return []byte(refusedDrain)
	}
	return []byte(refusedFull)
}

// OnTraffic answers lines.
func (h *handler) OnTraffic(c gnet.Conn) gnet.Action {
	// All of it: gnet keeps nothing.
	buf, _ := c.Next(-1)
	s, _ := c.Context().(*session)
	if s != nil && s.lingering {
		return h.linger(s, len(buf))
	}
	var stream protocol.Lines
	if s != nil {
		stream = s.Lines
	}
	pooled := h.buffer()
	defer h.answers.Put(pooled)
	cfg := h.cfg.Load()
	out, action, tooLong := h.answerAll(c, &stream, cfg, buf, (*pooled)[:0])
	*pooled = out[:0]
	if cfg.Line != nil && isGone(c) {
		return gnet.None
	}

	if len(out) > 0 {
		if _, err := c.Write(out); err != nil {
			return gnet.None // closed by Write
		}
		if c.OutboundBuffered() > cfg.MaxOutbound {
			h.slowReaders.Add(1)
			h.log.Debug("server: closing a peer that does not read", "peer", c.RemoteAddr(), "unread", c.OutboundBuffered())
			return gnet.Close
		}
	}
	if s == nil && (tooLong || stream.Partial()) {
		s = new(session)
		c.SetContext(s)
	}
	if s != nil {
		s.Lines = stream
	}
	if tooLong {
		return h.beginLinger(c, s)
	}
	return action
}

// answerAll answers each whole line in buf. Each whole line is a heartbeat.
func (h *handler) answerAll(c gnet.Conn, stream *protocol.Lines, cfg *Config, buf, out []byte) (_ []byte, action gnet.Action, tooLong bool) {
	lines := 0
	for len(buf) > 0 && action == gnet.None && !tooLong {
		var line, ending []byte
		line, ending, buf, tooLong = stream.Next(buf, cfg.MaxLine)
		switch {
		case tooLong:
			out = append(out, "ERR line too long\n"...)
		case ending != nil:
			lines++
			var done bool
			if out, done = h.ask(c, cfg, line, ending, out); done {
				if isGone(c) {
					return nil, gnet.None, false
				}
				continue
			}
			var last bool
			if out, last = protocol.Answer(out, line, ending); last {
				action = gnet.Close
			}
		}
	}
	for guard := keepalive.Of(c); lines > 0; lines-- {
		guard.Touch()
	}
	return out, action, tooLong
}

// beginLinger ends our side of a connection while its peer may still be sending. If we closed
// it at once, the kernel would send a reset, and the peer might never read our last word.
func (h *handler) beginLinger(c gnet.Conn, s *session) gnet.Action {
	h.longLines.Add(1)
	s.lingering, s.Lines = true, protocol.Lines{}
	if c.OutboundBuffered() > 0 || gnetsocket.CloseWrite(c) != nil {
		return gnet.Close
	}
	return gnet.None
}

// linger drops later bytes. The peer closes when it has read our last word. If it does not, the
// connection is closed when it is idle.
func (h *handler) linger(s *session, n int) gnet.Action {
	if s.dropped += n; s.dropped > adapter.MaxLinger {
		return gnet.Close
	}
	return gnet.None
}

// maxPooled is the largest buffer kept for the next answers, in bytes.
const maxPooled = 1 << 20

func (h *handler) buffer() *[]byte {
	if b, ok := h.answers.Get().(*[]byte); ok && cap(*b) <= maxPooled {
		return b
	}
	return new([]byte)
}
