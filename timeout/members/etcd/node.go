package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// nodeKey tells the nodes of this process apart.
type nodeKey struct{ name, run string }

// node is a member in this process.
type node struct {
	lease   clientv3.LeaseID // 0 if there is none
	seconds int64            // requested time of the lease
	joined  bool             // the node's key has that lease
	topics  []string         // the topics in the node's key

	// ends has the leases of other nodes of this name, and for each the latest end without another
	// heartbeat of its node.
	ends map[clientv3.LeaseID]time.Time
}

// heartbeat makes the node a member for that many seconds.
func (n *node) heartbeat(ctx context.Context, m *Members, who engine.Node, seconds int64) error {
	if n.lease != 0 && n.seconds == seconds {
		switch err := keepAlive(ctx, m.client, n.lease); {
		case errors.Is(err, rpctypes.ErrLeaseNotFound):
			n.lease, n.joined = 0, false
		case err != nil:
			return err
		case n.joined && sameTopics(n.topics, who.Topics):
			return nil
		}
	}
	old := n.lease
	if n.lease == 0 || n.seconds != seconds {
		granted, err := m.client.Grant(ctx, seconds)
		if err != nil {
			return err
		}
		n.lease, n.seconds = granted.ID, seconds
		n.joined = false
	}
	if err := m.put(ctx, who, n.lease, seconds); err != nil {
		return err
	}
	n.joined, n.topics = true, slices.Clone(who.Topics)
	if old != 0 && old != n.lease {
		_, _ = m.client.Revoke(ctx, old) // no key has it, and it would end by itself
	}
	return nil
}

// leave ends the membership.
func (n *node) leave(ctx context.Context, m *Members) error {
	if n.lease == 0 {
		return nil
	}
	_, err := m.client.Revoke(ctx, n.lease)
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return nil
	}
	return err
}

// A key is the prefix and one of these.
const (
	nodesKey = "nodes/" // followed by the name

	// runsKey is followed by a lease, and holds the name and the run of its node. Two nodes of one
	// name share a nodesKey, and have a runsKey each.
	runsKey = "runs/"
)

// put writes a node's key. A key that is there keeps its place.
func (m *Members) put(ctx context.Context, who engine.Node, lease clientv3.LeaseID, seconds int64) error {
	value, _ := json.Marshal(record{engine.Node{Name: who.Name, Topics: who.Topics}, seconds}) // strings can always be written
	puts := []clientv3.Op{clientv3.OpPut(m.cfg.Prefix+nodesKey+who.Name, string(value), clientv3.WithLease(lease))}
	if who.Run != "" {
		run, _ := json.Marshal(running{Name: who.Name, Run: who.Run})
		key := m.cfg.Prefix + runsKey + strconv.FormatInt(int64(lease), 16)
		puts = append(puts, clientv3.OpPut(key, string(run), clientv3.WithLease(lease)))
	}
	_, err := m.client.Txn(ctx).Then(puts...).Commit()
	return err
}

// meet returns the run of another node with this name, if somebody has renewed its lease since this
// node first saw it. The lease of a killed predecessor just runs down. An error of etcd is no error
// of the heartbeat: the next one asks again.
func (n *node) meet(ctx context.Context, client *clientv3.Client, who engine.Node, runs []running) (other string) {
	ends := make(map[clientv3.LeaseID]time.Time)
	for _, r := range runs {
		if r.Name != who.Name || who.Other(r.Run) == "" {
			continue
		}
		asked := time.Now()
		left, err := client.TimeToLive(ctx, r.lease)
		if err != nil {
			return ""
		}
		if left.TTL <= 0 {
			continue // it has just ended
		}
		end, known := n.ends[r.lease]
		renewed := known && asked.Add(time.Duration(left.TTL)*time.Second).After(end)
		if renewed {
			other = r.Run
		}
		if renewed || !known {
			end = time.Now().Add(time.Duration(left.TTL+1) * time.Second) // etcd rounds down
		}
		ends[r.lease] = end
	}
	n.ends = ends
	return other
}

// keepAlive renews a lease for its whole time. It does not use the client's KeepAliveOnce: that one
// retries without a pause when the cluster has no leader.
func keepAlive(ctx context.Context, client *clientv3.Client, lease clientv3.LeaseID) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the stream
	stream, err := pb.NewLeaseClient(client.ActiveConnection()).LeaseKeepAlive(ctx, grpc.WaitForReady(true))
	if err != nil {
		return clientv3.ContextError(ctx, err)
	}
	// If Send meets the end of the stream, Recv returns the error.
	if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(lease)}); err != nil && !errors.Is(err, io.EOF) {
		return clientv3.ContextError(ctx, err)
	}
	answer, err := stream.Recv()
	if err != nil {
		return clientv3.ContextError(ctx, err)
	}
	if answer.GetTTL() <= 0 {
		return rpctypes.ErrLeaseNotFound
	}
	return nil
}

func sameTopics(a, b []string) bool { return (a == nil) == (b == nil) && slices.Equal(a, b) }
