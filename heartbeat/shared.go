package heartbeat

import (
	"context"
	"net"
	"sync"
)

// shared is the Beater of the package functions. It begins with its first connection
// and ends with its last.
var shared struct {
	mu     sync.Mutex
	beater *Beater
	conns  int
}

// Start is [Beater.Start] of a Beater shared by all callers, with the zero Config: its tick is
// 100ms, so a Timeout must be at least a second.
func Start(conn net.Conn, opts Options) (*Conn, error) {
	b, err := share()
	if err != nil {
		return nil, err
	}
	c, err := b.start(conn, opts, unshare)
	if err != nil {
		unshare()
		return nil, err
	}
	return c, nil
}

// Run is [Beater.Run] of the Beater of [Start].
func Run(ctx context.Context, conn net.Conn, opts Options) error {
	return run(ctx, conn, opts, Start)
}

func share() (*Beater, error) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.conns == 0 {
		b, err := New(Config{})
		if err != nil {
			return nil, err
		}
		shared.beater = b
	}
	shared.conns++
	return shared.beater, nil
}

func unshare() {
	shared.mu.Lock()
	shared.conns--
	last := shared.beater
	if shared.conns > 0 {
		last = nil
	} else {
		shared.beater = nil
	}
	shared.mu.Unlock()
	if last != nil {
		_ = last.Close() // waits for the hand: not with the lock
	}
}
