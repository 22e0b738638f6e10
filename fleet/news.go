package fleet

import (
	"context"
	"time"
)

// listenLoop hears of sessions registered elsewhere or kicked. The next extension would find it, too,
// but two nodes would have the session until then. So the node extends all sessions whenever it may
// have missed a message.
func (n *Node) listenLoop(ctx context.Context) {
	failing := false
	hear := func(news news) {
		if failing && news.kind == newsAgain {
			failing = false
			n.cfg.Logger.Info("fleet: other nodes are heard again", "node", n.cfg.Node)
		}
		n.hear(news)
	}
	for ctx.Err() == nil {
		err := n.store.listen(ctx, hear)
		if ctx.Err() != nil {
			return
		}
		if !failing {
			failing = true
			n.cfg.Logger.Warn("fleet: nothing is heard of other nodes", "node", n.cfg.Node, "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (n *Node) hear(news news) {
	switch news.kind {
	case newsAgain:
		n.confirmOnce() // before sessions are there: the server may have lost everything
		n.recheck(n.everySlot())
	case superseded, kicked:
		n.lose(news.claim, news.kind)
	}
}
