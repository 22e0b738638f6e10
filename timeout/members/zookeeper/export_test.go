package zookeeper

import (
	"context"
	"net"
	"time"

	"github.com/go-zookeeper/zk"
)

// Nodes returns how many nodes of this process are kept.
func (m *Members) Nodes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.nodes)
}

// Dialer returns the dialer of a session that connects with dial.
func Dialer(dial func(ctx context.Context, network, address string) (net.Conn, error)) zk.Dialer {
	return (&dialer{dial: dial, limit: time.Minute}).connect
}
