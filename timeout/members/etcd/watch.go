package etcd

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Watch implements engine.Watcher. It calls changed once at the beginning, because it may have
// missed changes. It goes on when a server is away. It returns an error if the servers have no
// leader, or no longer know the changes. The caller then calls Watch again.
func (m *Members) Watch(ctx context.Context, changed func()) error {
	if m.closed.Load() {
		return engine.ErrClosed
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the watch
	changes := m.client.Watch(clientv3.WithRequireLeader(ctx), m.cfg.Prefix, clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	for answer := range changes {
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
		return engine.ErrClosed // the client was closed
	}
	return nil
}
