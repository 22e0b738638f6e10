package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/redisserver"
)

// redisFiles is how many connections to Redis a node may have.
const redisFiles = 64

// launch starts Redis and the nodes, and waits until they listen. As with startServers, the
// thread must be locked and stay.
func (f *fleet) launch(ctx context.Context, p plan, m *meter) (_ *servers, err error) {
	f.meter, f.servers = m, new(servers)
	defer func() {
		if err != nil {
			f.kill()
		}
	}()
	url := f.cfg.redis
	if url == "" {
		if f.redis, err = startRedis(ctx); err != nil {
			return nil, err
		}
		url = f.redis.URL
	}
	if f.binary = f.cfg.server; f.binary == "" {
		if f.binary, err = f.servers.buildGateway(ctx); err != nil {
			return nil, err
		}
	}
	f.args, f.env = f.cfg.gatewayArgs(f.prefix), p.gatewayEnv(url)
	if f.cfg.quantum > 0 {
		defer workInBatches()() // which the servers inherit
	}
	for i := range f.cfg.nodes {
		if _, err := f.startNode(fmt.Sprintf("node-%d", i+1)); err != nil {
			return nil, err
		}
	}
	for _, n := range f.all() {
		if err := n.listens(ctx); err != nil {
			return nil, err
		}
	}
	return f.servers, nil
}

func startRedis(ctx context.Context) (*redisserver.Server, error) {
	r, err := redisserver.Start(ctx)
	if errors.Is(err, redisserver.ErrMissing) {
		err = fmt.Errorf("%w, or -redis says where one runs", err)
	}
	return r, err
}

// untilRedisEnds returns a context that is done with ctx, or when the fleet's own Redis has ended,
// without which nothing that comes is worth a look. It must be released.
func (f *fleet) untilRedisEnds(ctx context.Context) (_ context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	if f.redis != nil {
		watch.Go(func() {
			select {
			case <-f.redis.Ended():
				cancel(f.redis.Err())
			case <-ctx.Done():
			}
		})
	}
	return ctx, func() {
		cancel(nil)
		watch.Wait()
	}
}

// kill ends all processes in any case, and removes what was built.
func (f *fleet) kill() {
	if f.servers != nil {
		f.servers.kill()
		f.watches.Wait()
	}
	if f.redis != nil {
		f.redis.Stop()
	}
}

// startNode starts a gateway, which does not listen yet.
func (f *fleet) startNode(name string) (*node, error) {
	n := &node{name: name}
	n.child = newChild(f.binary, append([]string{"-name", name}, f.args...), f.env)
	if err := n.child.start(n.readLog, n.log.line); err != nil {
		return nil, err
	}
	f.servers.children = append(f.servers.children, n.child)
	f.watches.Go(func() {
		<-n.child.done
		f.end(n, died) // or somebody has ended it
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	n.number = len(f.nodes)
	f.nodes = append(f.nodes, n)
	return n, nil
}

// readLog looks for when the node is there for sessions: it listens first, and is in the fleet
// later, or never.
func (n *node) readLog(line []byte) {
	switch msg, addr := n.child.remember(line); msg {
	case saysListening:
		n.listening = addr
	case "gateway: open":
		n.child.listensAt(n.listening)
	}
}

// listens waits until the node does, and is in the fleet.
func (n *node) listens(ctx context.Context) error {
	err := n.child.listens(ctx)
	if err == nil {
		n.addr, err = netip.ParseAddrPort(n.child.addr)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", n.name, err)
	}
	n.child.idleFiles += redisFiles
	n.state.CompareAndSwap(starting, up)
	return nil
}

// bury forgets the nodes that have ended by themselves, and returns how.
func (f *fleet) bury() (how []string) {
	for _, n := range f.all() {
		if n.state.Load() == died {
			f.forget(n)
			how = append(how, fmt.Sprintf("%s has ended by itself: %v", n.name, n.child.ended(context.Background(), time.Now().Add(stopLimit))))
		}
	}
	return how
}

// forget is for a node that has ended.
func (f *fleet) forget(n *node) {
	f.meter.leave(n.child.cmd.Process.Pid)
	f.servers.children = slices.DeleteFunc(f.servers.children, func(c *child) bool { return c == n.child })
}
