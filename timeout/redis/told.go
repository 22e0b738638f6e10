package redis

import (
	"cmp"
	"context"
	"slices"
)

// failing returns the address of a failed call's server. After the end of its caller a call says nothing about a
// server.
func (e *Engine) failing(ctx context.Context, c *invocation) string {
	if ctx.Err() != nil || e.redis.Closed() {
		return ""
	}
	return cmp.Or(e.redis.Server(c.at.keys[0].(string)), "unknown")
}

// log logs each failing server once, and its recovery once: with an answer of the others, Expire has no error.
func (x *expiry) log(ctx context.Context, l *layout, slots []int) {
	if x.ask.Max == 0 || x.ask.Late > 0 || ctx.Err() != nil { // not about the slots of this node, or not answered
		return
	}
	log, topic := x.engine.cfg.Logger, x.ask.Topic
	begun, over := l.hints.turned(slots)
	for server, failure := range begun {
		log.Warn("timeout/redis: a server fails, and its tasks wait", "topic", topic, "server", server, "err", failure)
	}
	for _, server := range over {
		log.Info("timeout/redis: a server fails no more", "topic", topic, "server", server)
	}
}

// fails notes the failing server of a slot, or none.
func (s *hint) fails(server string) {
	if server == s.failing {
		return
	}
	if s.logged {
		s.over = s.failing
	}
	s.failing, s.logged = server, false
}

// turned returns the servers of some slots with a first failure since the last call, and the recovered ones. It says
// nothing about the servers of other slots: several nodes may share an engine, and a node may lose a failing slot.
func (h *hints) turned(slots []int) (begun map[string]error, over []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var failing map[string]bool // whether the log has it
	for _, slot := range slots {
		if s := &h.slots[slot]; s.failing != "" {
			if failing == nil {
				failing, begun = make(map[string]bool), make(map[string]error)
			}
			failing[s.failing] = failing[s.failing] || s.logged
		}
	}
	for _, slot := range slots {
		server := h.slots[slot].over
		if _, still := failing[server]; still {
			failing[server] = true // since it has failed in this slot
		}
	}
	for _, slot := range slots {
		s := &h.slots[slot]
		if _, still := failing[s.over]; s.over != "" && !still && !slices.Contains(over, s.over) {
			over = append(over, s.over)
		}
		s.over = ""
		switch {
		case s.failing == "":
		case failing[s.failing]:
			s.logged = true
		case s.failure != nil:
			begun[s.failing], s.logged = cmp.Or(begun[s.failing], s.failure), true
		}
	}
	return begun, over
}
