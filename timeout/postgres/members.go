package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Beat implements engine.Members.
func (e *Engine) Beat(ctx context.Context, node engine.Node, ttl time.Duration) (engine.View, error) {
	topics, err := json.Marshal(node.Topics)
	if err != nil {
		return engine.View{}, fmt.Errorf("timeout/postgres: topics of node %s: %w", node.Name, err)
	}
	other := ""
	view, err := e.changeView(ctx, "beating for "+node.Name, func(tx pgx.Tx, table string) error {
		_, err := tx.Exec(ctx, `DELETE FROM `+table+` WHERE until <= `+snippets[1]+` AND name <> $1`, node.Name)
		if err != nil {
			return err
		}
		var run string // of the record before, if it was alive
		err = tx.QueryRow(ctx, `WITH before AS (SELECT run, until FROM `+table+` WHERE name = $1)
			INSERT INTO `+table+` (name, topics, until, ttl, run) VALUES ($1, $2, `+snippets[1]+` + $3, $3, $4)
			ON CONFLICT (name) DO UPDATE SET topics = excluded.topics, until = excluded.until, ttl = excluded.ttl, run = excluded.run
			RETURNING coalesce((SELECT run FROM before WHERE until > `+snippets[1]+`), '')`,
			node.Name, string(topics), engine.CeilMillis(ttl), node.Run).Scan(&run)
		if err != nil {
			return err
		}
		other = node.Other(run)
		// An end with more before it than a node's ttl was set before the clock was stepped back.
		_, err = tx.Exec(ctx, `UPDATE `+table+` SET until = `+snippets[1]+` + ttl WHERE until > `+snippets[1]+` + ttl AND name <> $1`, node.Name)
		return err
	})
	view.Other = other
	return view, err
}

// Leave implements engine.Members.
func (e *Engine) Leave(ctx context.Context, name string) error {
	_, err := e.changeView(ctx, "leaving as "+name, func(tx pgx.Tx, table string) error {
		_, err := tx.Exec(ctx, `DELETE FROM `+table+` WHERE name = $1`, name)
		return err
	})
	return err
}

// changeView calls change in a transaction, and returns the members after it; only one at a time can do so.
func (e *Engine) changeView(ctx context.Context, doing string, change func(tx pgx.Tx, table string) error) (view engine.View, err error) {
	members, views := quote(e.schema)+".hw_members", quote(e.schema)+".hw_view"
	err = e.inTx(ctx, doing, func(tx pgx.Tx) error {
		// Processes of an earlier version read hw_fences and hw_view.term: both go with a later version.
		_, err := tx.Exec(ctx, `SELECT term FROM `+views+` FOR UPDATE`)
		if err == nil {
			err = change(tx, members)
		}
		if err == nil {
			view, err = readView(ctx, tx, members)
		}
		return err
	})
	return view, err
}

func readView(ctx context.Context, tx pgx.Tx, table string) (view engine.View, err error) {
	rows, _ := tx.Query(ctx, `SELECT name, topics, ttl FROM `+table+` ORDER BY no`)
	var node struct {
		name   string
		topics []byte
		ttl    int64
	}
	_, err = pgx.ForEachRow(rows, []any{&node.name, &node.topics, &node.ttl}, func() error {
		one := engine.Node{Name: node.name}
		if err := json.Unmarshal(node.topics, &one.Topics); err != nil {
			return fmt.Errorf("topics of node %s: %w", one.Name, err)
		}
		view.Nodes, view.TTL = append(view.Nodes, one), max(view.TTL, time.Duration(node.ttl)*time.Millisecond)
		return nil
	})
	return view, err
}
