package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Heartbeat implements engine.Members.
func (e *Engine) Heartbeat(ctx context.Context, node engine.Node, ttl time.Duration) (engine.View, error) {
	return transaction(ctx, e, "heartbeat", func(ctx context.Context, s *session) (engine.View, error) {
		return heartbeat(ctx, s, node, engine.CeilMillis(ttl))
	})
}

func heartbeat(ctx context.Context, s *session, node engine.Node, ttl int64) (engine.View, error) {
	topics, err := json.Marshal(node.Topics) // nil is null
	if err != nil {
		return engine.View{}, err
	}
	at := now()
	if _, err := s.ExecContext(ctx, "DELETE FROM hw_members WHERE until <= ? AND name <> ?", at, node.Name); err != nil {
		return engine.View{}, err
	}
	var run string
	var until int64
	if _, err := one(ctx, s, "SELECT coalesce(run, ''), until FROM hw_members WHERE name = ?", []any{node.Name}, &run, &until); err != nil {
		return engine.View{}, err
	}
	_, err = s.ExecContext(ctx, `INSERT INTO hw_members (name, topics, run, until, ttl) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (name) DO UPDATE SET topics = excluded.topics, run = excluded.run, until = excluded.until, ttl = excluded.ttl`,
		node.Name, string(topics), node.Run, at+ttl, ttl)
	if err == nil { // an end later than a ttl from now was set before the clock was stepped back
		_, err = s.ExecContext(ctx, "UPDATE hw_members SET until = ?1 + ttl WHERE until > ?1 + ttl", at)
	}
	if err != nil {
		return engine.View{}, err
	}
	v, err := view(ctx, s)
	if until > at {
		v.Other = node.Other(run)
	}
	return v, err
}

func view(ctx context.Context, s *session) (engine.View, error) {
	var v engine.View
	err := each(ctx, s, "SELECT name, topics, ttl FROM hw_members ORDER BY no", nil, func(rows *sql.Rows) error {
		var node engine.Node
		var topics string
		var ttl int64
		if err := rows.Scan(&node.Name, &topics, &ttl); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(topics), &node.Topics); err != nil {
			return fmt.Errorf("topics of node %s: %w", node.Name, err)
		}
		v.Nodes, v.TTL = append(v.Nodes, node), max(v.TTL, time.Duration(ttl)*time.Millisecond)
		return nil
	})
	return v, err
}

// Leave implements engine.Members.
func (e *Engine) Leave(ctx context.Context, name string) error {
	_, err := transaction(ctx, e, "leaving", func(ctx context.Context, s *session) (sql.Result, error) {
		return s.ExecContext(ctx, "DELETE FROM hw_members WHERE name = ?", name)
	})
	return err
}
