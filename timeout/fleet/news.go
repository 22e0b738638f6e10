package fleet

import (
	"context"
	"time"
)

// listenLoop hears that sessions are somebody else's, or were kicked. It is only the faster way:
// the next extension would find it, too.
func (n *Node) listenLoop(ctx context.Context) {
	for ctx.Err() == nil {
		err := n.store.listen(ctx, n.hear)
		if ctx.Err() != nil {
			return
		}
		n.cfg.Logger.Warn("fleet: nothing is heard of other nodes", "node", n.cfg.Node, "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

func (n *Node) hear(news news) {
	n.mu.Lock()
	s := n.sessions[news.id]
	n.mu.Unlock()
	if s == nil || s.claim().token != news.token {
		return
	}
	switch news.kind {
	case 's':
		n.refused(s, superseded)
	case 'k':
		n.refused(s, kicked)
	}
}
