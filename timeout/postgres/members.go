package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Heartbeat implements engine.Members.
func (e *Engine) Heartbeat(ctx context.Context, node engine.Node, ttl time.Duration) (engine.View, error) {
	topics, err := json.Marshal(node.Topics)
	if err != nil {
		return engine.View{}, fmt.Errorf("timeout/postgres: topics of node %s: %w", node.Name, err)
	}
	var run string // of the record before, if it was alive
	view, err := e.changeView(ctx, "heartbeat of "+node.Name, func(b *pgx.Batch, table string) {
		b.Queue(`DELETE FROM `+table+` WHERE until <= `+snippets[1]+` AND name <> $1`, node.Name)
		b.Queue(`WITH before AS (SELECT run, until FROM `+table+` WHERE name = $1)
			INSERT INTO `+table+` (name, topics, until, ttl, run) VALUES ($1, $2, `+snippets[1]+` + $3, $3, $4)
			ON CONFLICT (name) DO UPDATE SET topics = excluded.topics, until = excluded.until, ttl = excluded.ttl, run = excluded.run
			RETURNING coalesce((SELECT run FROM before WHERE until > `+snippets[1]+`), '')`,
			node.Name, string(topics), engine.CeilMillis(ttl), node.Run).QueryRow(func(row pgx.Row) error { return row.Scan(&run) })
		// An end with more before it than a node's ttl was set before the clock was stepped back.
		b.Queue(`UPDATE `+table+` SET until = `+snippets[1]+` + ttl WHERE until > `+snippets[1]+` + ttl AND name <> $1`, node.Name)
	})
	view.Other = node.Other(run)
	return view, err
}

// Leave implements engine.Members.
func (e *Engine) Leave(ctx context.Context, name string) error {
	_, err := e.changeView(ctx, "leaving as "+name, func(b *pgx.Batch, table string) {
		b.Queue(`DELETE FROM `+table+` WHERE name = $1`, name)
	})
	return err
}

// changeView makes a change and returns the members after it, in one round trip; only one at a time can do so. The
// statements see what others have changed meanwhile, whatever the database's isolation level.
func (e *Engine) changeView(ctx context.Context, doing string, change func(b *pgx.Batch, table string)) (view engine.View, err error) {
	members, views := quote(e.schema)+".hw_members", quote(e.schema)+".hw_view"
	err = e.repeat(ctx, doing, func() error {
		b := new(pgx.Batch)
		b.Queue(`BEGIN ISOLATION LEVEL READ COMMITTED`)
		// Processes of an earlier version read hw_fences and hw_view.term: both go with a later version.
		b.Queue(`SELECT term FROM ` + views + ` FOR UPDATE`)
		change(b, members)
		b.Queue(`SELECT name, topics, ttl FROM ` + members + ` ORDER BY no`).Query(func(rows pgx.Rows) (err error) {
			view, err = readView(rows)
			return err
		})
		b.Queue(`COMMIT`)
		return e.with(ctx, func(conn *pgxpool.Conn) error { return conn.SendBatch(ctx, b).Close() })
	})
	return view, err
}

func readView(rows pgx.Rows) (view engine.View, err error) {
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
