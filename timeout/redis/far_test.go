package redis_test

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
	"github.com/heartwheel-go/heartwheel/timeout/redis"
)

// openFar opens an engine of a Cluster with a long way to its servers: each reply comes so much later.
func openFar(t *testing.T, cluster *testserver.Cluster, way func(addr string) time.Duration) *redis.Engine {
	t.Helper()
	dialer := net.Dialer{}
	var all sync.WaitGroup
	client := goredis.NewClusterClient(&goredis.ClusterOptions{
		Addrs: []string{cluster.Nodes[0].Addr}, MaxRetries: -1, ContextTimeoutEnabled: true, ReadTimeout: time.Minute,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			server, err := dialer.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			far := make(chan net.Conn, 1)
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return nil, err
			}
			defer ln.Close()
			go func() {
				conn, _ := ln.Accept()
				far <- conn
			}()
			near, err := dialer.DialContext(ctx, network, ln.Addr().String())
			if err != nil {
				return nil, err
			}
			conn := <-far
			all.Go(func() { _, _ = io.Copy(server, conn); server.Close() })
			all.Go(func() { delay(conn, server, func() time.Duration { return way(addr) }); conn.Close() })
			return near, nil
		},
	})
	e, err := redis.New(client, redis.Config{Prefix: prefix()})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, e.Close())
		require.NoError(t, client.Close())
		all.Wait()
	})
	return e
}

// delay copies what comes, and each piece so much later.
func delay(to io.Writer, from io.Reader, way func() time.Duration) {
	type piece struct {
		bytes []byte
		at    time.Time
	}
	pieces := make(chan piece, 10_000)
	go func() {
		defer close(pieces)
		for {
			buffer := make([]byte, 64<<10)
			n, err := from.Read(buffer)
			if err != nil {
				return
			}
			pieces <- piece{buffer[:n], time.Now().Add(way())}
		}
	}()
	for p := range pieces {
		time.Sleep(time.Until(p.at))
		if _, err := to.Write(p.bytes); err != nil {
			for range pieces {
				continue
			}
			return
		}
	}
}
