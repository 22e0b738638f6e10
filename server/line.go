package server

import (
	"runtime/debug"

	"github.com/panjf2000/gnet/v2"
)

// ask has Config.Line see a line, and appends its answer. If done, the protocol does not answer:
// the line was handled, or the connection is gone.
func (h *handler) ask(c gnet.Conn, cfg *Config, line, ending, out []byte) (_ []byte, done bool) {
	if cfg.Line == nil {
		return out, false
	}
	answer, handled := h.callLine(c, cfg, line)
	if handled && answer != nil {
		out = append(append(out, answer...), ending...)
	}
	return out, handled || isGone(c)
}

func (h *handler) callLine(c gnet.Conn, cfg *Config, line []byte) (answer []byte, handled bool) {
	defer func() {
		if v := recover(); v != nil {
			h.panics.Add(1)
			h.log.Error("server: Line panicked", "panic", v, "stack", string(debug.Stack()))
			answer, handled = []byte(lineFailed), true
		}
	}()
	return cfg.Line(c, line)
}

// isGone reports whether Line has closed a connection: then its descriptor may be somebody
// else's. An open connection has its guard in SafeContext or, after Keeper.Close, an address.
func isGone(c gnet.Conn) bool { return c.SafeContext() == nil && c.RemoteAddr() == nil }
