package etcd

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// snapshot is the content of etcd at one revision.
type snapshot struct {
	nodes []engine.Node
	ttl   time.Duration // the longest of them
	runs  []running
}

// record is the value of a node's key.
type record struct {
	engine.Node
	Seconds int64 `json:"seconds"` // its ttl
}

// running is the run of a node that has one.
type running struct {
	Name string `json:"name"`
	Run  string `json:"run"`

	lease clientv3.LeaseID
}

func (s snapshot) has(name string) bool {
	return slices.ContainsFunc(s.nodes, func(n engine.Node) bool { return n.Name == name })
}

// read reads all nodes, oldest first.
func (m *Members) read(ctx context.Context) (snapshot, error) {
	answer, err := m.client.Get(ctx, m.cfg.Prefix, clientv3.WithPrefix(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	if err != nil {
		return snapshot{}, err
	}
	var s snapshot
	for _, kv := range answer.Kvs {
		key := strings.TrimPrefix(string(kv.Key), m.cfg.Prefix)
		switch {
		case strings.HasPrefix(key, nodesKey):
			var node record
			err = json.Unmarshal(kv.Value, &node)
			node.Name = strings.TrimPrefix(key, nodesKey)
			s.nodes, s.ttl = append(s.nodes, node.Node), max(s.ttl, time.Duration(node.Seconds)*time.Second)
		case strings.HasPrefix(key, runsKey):
			run := running{lease: clientv3.LeaseID(kv.Lease)}
			err = json.Unmarshal(kv.Value, &run)
			s.runs = append(s.runs, run)
		}
		if err != nil {
			return snapshot{}, fmt.Errorf("key %s: %w", kv.Key, err)
		}
	}
	return s, nil
}
