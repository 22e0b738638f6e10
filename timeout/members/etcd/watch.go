package etcd

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// Watch is timeout.Watcher's. It calls changed once at the beginning, for what it has missed.
// It outlives a server that is away, and returns an error where the servers have no leader,
// and where what has changed is no longer known: then it is to be called again.
func (m *Members) Watch(ctx context.Context, changed func()) error {
	if m.closed.Load() {
		return timeout.ErrClosed
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the watch
	news := m.client.Watch(clientv3.WithRequireLeader(ctx), m.cfg.Prefix, clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	for answer := range news {
		if err := answer.Err(); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("timeout/members/etcd: watching: %w", err)
		}
		if answer.Created || len(answer.Events) > 0 {
			changed()
		}
	}
	if ctx.Err() == nil {
		return timeout.ErrClosed // the client was closed
	}
	return nil
}
