package server

import (
	"fmt"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

const (
	refusedFull  = "ERR too many connections\n"
	refusedDrain = "ERR server shutting down\n"

	// lineFailed has no ending, since it gets the ending of the line.
	lineFailed = "ERR internal error"
)

// farewells are the last words of the Keeper to a peer, by reason. BYE is for a peer without
// fault, and ERR for a peer at fault.
type farewells map[keepalive.Reason][]byte

func newFarewells(cfg Config) farewells {
	return farewells{
		keepalive.ReasonFirstMessage: fmt.Appendf(nil, "BYE first message timeout %v\n", cfg.FirstMessage),
		keepalive.ReasonReadIdle:     fmt.Appendf(nil, "BYE read timeout %v\n", cfg.ReadIdle),
		keepalive.ReasonWriteIdle:    fmt.Appendf(nil, "BYE write timeout %v\n", cfg.WriteIdle),
		keepalive.ReasonNoAnswer:     []byte("BYE no answer to PING\n"),
		keepalive.ReasonMaxAge:       fmt.Appendf(nil, "BYE maximum age %v\n", cfg.Age.Max),
		keepalive.ReasonTooMany:      fmt.Appendf(nil, "ERR more than a heartbeat per %v\n", cfg.Rate.MinBeat),
		keepalive.ReasonTooSlow:      fmt.Appendf(nil, "ERR less than %d bytes per second\n", cfg.Rate.MinBytes),
		keepalive.ReasonEvicted:      []byte("BYE closed to make room\n"),
		keepalive.ReasonDrain:        []byte("BYE server shutting down\n"),
		keepalive.ReasonShed:         []byte("BYE connect again\n"),
	}
}

// say returns the last words. The Keeper calls it.
func (f farewells) say(conn any, reason keepalive.Reason) []byte {
	if isLingering(conn) { // it has heard its last word
		return nil
	}
	if reason == keepalive.ReasonIdle {
		info, _ := keepalive.Of(conn).Info() // the connection may have a timeout of its own
		return fmt.Appendf(nil, "BYE idle timeout %v\n", info.Timeout)
	}
	if text, ok := f[reason]; ok {
		return text
	}
	return fmt.Appendf(nil, "BYE %s\n", reason)
}

// isLingering reports whether the last word to a peer has been said.
func isLingering(conn any) bool {
	s, _ := conn.(gnet.Conn).Context().(*session)
	return s != nil && s.lingering
}

// probe asks a silent peer for a line. It runs in the event loop of the connection.
func probe(conn any) error {
	if isLingering(conn) {
		return nil
	}
	_, err := conn.(gnet.Conn).Write([]byte("PING\n"))
	return err
}

// goAway returns a function for Age.OnMax: it tells a peer how much time its connection has
// left. It runs in the event loop of the connection.
func goAway(grace time.Duration) func(conn any) {
	text := fmt.Appendf(nil, "GOAWAY %v\n", grace)
	return func(conn any) {
		if !isLingering(conn) {
			_, _ = conn.(gnet.Conn).Write(text) // after an error gnet has closed it
		}
	}
}
