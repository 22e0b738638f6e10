package etcd

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// snapshot is the content of etcd at one revision.
type snapshot struct {
	term  int64
	nodes []engine.Node
	keys  []version // equal as long as nothing changes
	runs  []running
}

// running is the run of a node that has one.
type running struct {
	Name string `json:"name"`
	Run  string `json:"run"`

	lease clientv3.LeaseID
}

// version is one state of a key.
type version struct {
	key      string
	revision int64 // revision of its last write
}

func (s snapshot) has(name string) bool {
	return slices.ContainsFunc(s.nodes, func(n engine.Node) bool { return n.Name == name })
}

// read reads all nodes, oldest first. Without the key of the changes there are no terms; read then
// returns no nodes.
func (m *Members) read(ctx context.Context) (snapshot, error) {
	answer, err := m.client.Get(ctx, m.cfg.Prefix, clientv3.WithPrefix(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	if err != nil {
		return snapshot{}, err
	}
	var s snapshot
	var base int64
	for _, kv := range answer.Kvs {
		key := strings.TrimPrefix(string(kv.Key), m.cfg.Prefix)
		switch {
		case key == changesKey:
			base, err = strconv.ParseInt(string(kv.Value), 10, 64)
		case strings.HasPrefix(key, nodesKey):
			var node engine.Node
			err = json.Unmarshal(kv.Value, &node)
			node.Name = strings.TrimPrefix(key, nodesKey)
			s.nodes = append(s.nodes, node)
		case strings.HasPrefix(key, runsKey):
			run := running{lease: clientv3.LeaseID(kv.Lease)}
			if err := json.Unmarshal(kv.Value, &run); err != nil {
				return snapshot{}, fmt.Errorf("key %s: %w", kv.Key, err)
			}
			s.runs = append(s.runs, run)
			continue // the nodes are the same
		default:
			continue // somebody else's
		}
		if err != nil {
			return snapshot{}, fmt.Errorf("key %s: %w", kv.Key, err)
		}
		s.keys = append(s.keys, version{key, kv.ModRevision})
	}
	if base <= 0 {
		return snapshot{}, nil
	}
	s.term = base + answer.Header.Revision
	return s, nil
}
