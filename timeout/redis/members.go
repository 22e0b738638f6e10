package redis

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/redisrun"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Heartbeat is engine.Members'.
func (e *Engine) Heartbeat(ctx context.Context, node engine.Node, ttl time.Duration) (engine.View, error) {
	topics, err := json.Marshal(node.Topics)
	if err != nil {
		return engine.View{}, fmt.Errorf("timeout/redis: topics of node %s: %w", node.Name, err)
	}
	c := &redisrun.Call{Script: scriptHeartbeat, Keys: e.memberKeys, Args: []any{node.Name, engine.CeilMillis(ttl), topics, node.Run}}
	if err := e.redis.RunOne(ctx, c); err != nil {
		return engine.View{}, err
	}
	view, err := readView(c.Answer)
	view.Other = node.Other(text(c.Answer[1]))
	return view, err
}

// Leave is engine.Members'.
func (e *Engine) Leave(ctx context.Context, name string) error {
	return e.redis.RunOne(ctx, &redisrun.Call{Script: scriptHeartbeat, Keys: e.memberKeys, Args: []any{name, "", "", ""}})
}

// readView reads the nodes. The record of a node is number (8 bytes), ttl (8) and topics.
func readView(answer []any) (engine.View, error) {
	type member struct {
		number int64
		node   engine.Node
	}
	var members []member
	var view engine.View
	for pair := range slices.Chunk(list(answer[0]), 2) {
		name, record := text(pair[0]), text(pair[1])
		if len(record) < 16 {
			return engine.View{}, fmt.Errorf("timeout/redis: node %s has %d bytes, must have at least 16", name, len(record))
		}
		m := member{number(record[:8]), engine.Node{Name: name}}
		if err := json.Unmarshal([]byte(record[16:]), &m.node.Topics); err != nil {
			return engine.View{}, fmt.Errorf("timeout/redis: topics of node %s: %w", name, err)
		}
		members = append(members, m)
		view.TTL = max(view.TTL, time.Duration(number(record[8:16]))*time.Millisecond)
	}
	slices.SortFunc(members, func(a, b member) int { return cmp.Compare(a.number, b.number) })
	for _, m := range members {
		view.Nodes = append(view.Nodes, m.node)
	}
	return view, nil
}
