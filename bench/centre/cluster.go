package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	goredis "github.com/redis/go-redis/v9"

	"github.com/heartwheel-go/heartwheel/internal/port"
	"github.com/heartwheel-go/heartwheel/internal/process"
)

// master is one of a Redis Cluster of three.
type master struct {
	*process.Process
	port   string
	dir    string
	client *goredis.Client
}

func (m *master) signal(signal syscall.Signal) error { return syscall.Kill(m.PID(), signal) }

// cluster is a Redis Cluster of three masters without replicas. It serves the keys of the living
// masters.
type cluster struct{ masters []*master }

func startCluster(ctx context.Context) (*cluster, error) {
	c := new(cluster)
	const slots = 16384
	for i := range 3 {
		if err := c.add(ctx, i*slots/3, (i+1)*slots/3-1); err != nil {
			c.stop()
			return nil, err
		}
	}
	err := eventually(ctx, func() (bool, error) {
		for _, m := range c.masters {
			info, err := m.client.ClusterInfo(ctx).Result()
			if err != nil || !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_known_nodes:3") {
				return false, err
			}
		}
		return true, nil
	})
	if err != nil {
		c.stop()
		return nil, err
	}
	return c, nil
}

// add starts a master with a range of the Cluster's slots.
func (c *cluster) add(ctx context.Context, from, to int) error {
	free, err := port.Free()
	if err != nil {
		return err
	}
	m := &master{port: free, client: goredis.NewClient(&goredis.Options{Addr: net.JoinHostPort("127.0.0.1", free)})}
	if m.dir, err = os.MkdirTemp("", "cluster"); err != nil {
		return err
	}
	m.Process, err = process.Start(exec.Command("redis-server", "--port", free, "--bind", "127.0.0.1", "--dir", m.dir, "--save", "",
		"--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--cluster-require-full-coverage", "no"))
	if err != nil {
		return errors.Join(err, os.RemoveAll(m.dir))
	}
	c.masters = append(c.masters, m)
	if err := eventually(ctx, func() (bool, error) { return m.client.Ping(ctx).Err() == nil, nil }); err != nil {
		return err
	}
	if err := m.client.ClusterAddSlotsRange(ctx, from, to).Err(); err != nil {
		return err
	}
	return m.client.ClusterMeet(ctx, "127.0.0.1", c.masters[0].port).Err()
}

func (c *cluster) stop() {
	for _, m := range c.masters {
		_ = m.client.Close()
		m.Kill()
		_ = os.RemoveAll(m.dir)
	}
}

// victim returns a master with nothing but partitions of the topic, and these. The others have the
// topics and the nodes.
func (c *cluster) victim(ctx context.Context) (*master, map[int]bool, error) {
	for _, m := range c.masters {
		keys, err := m.client.Keys(ctx, "timeout:{*").Result()
		if err != nil {
			return nil, nil, err
		}
		parts := make(map[int]bool)
		for _, key := range keys {
			tag := strings.Split(key[strings.Index(key, "{")+1:strings.Index(key, "}")], ":")
			part, err := strconv.Atoi(tag[len(tag)-1])
			if err != nil {
				parts = nil
				break
			}
			parts[part] = true
		}
		if len(parts) > 0 {
			return m, parts, nil
		}
	}
	return nil, nil, fmt.Errorf("no master has only partitions of topic %s", topic)
}
