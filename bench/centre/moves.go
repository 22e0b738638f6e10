package main

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// store is what an engine keeps and has written, in bytes.
type store struct{ size, wal float64 }

func moveRows(s *servers) []measurement {
	row := func(subject string, open opener, measure func(context.Context) (store, error)) measurement {
		return noted("Moves to a later time, tasks/s", subject, "%.0f", func(note *string) func(context.Context) (float64, error) {
			return moveRate(open, measure, note)
		})
	}
	return []measurement{
		row("PostgreSQL", onPostgres(s), postgresStore(s)),
		row("SQLite", onSQLite(s), sqliteStore(s)),
		row("Redis", onRedis(s), redisStore(s)),
	}
}

// moveRate returns how many tasks are moved to a later time in a second: 10,000 of them over and over,
// 64 at a time, by two callers.
func moveRate(open opener, measure func(context.Context) (store, error), note *string) func(context.Context) (float64, error) {
	return func(ctx context.Context) (figure float64, err error) {
		err = with(ctx, open, func(e engine.Engine, center *timeout.Center) error {
			const count = 10_000
			start := time.Now().Add(time.Hour)
			if err := setInBatches(ctx, center, count, at(start)); err != nil {
				return err
			}
			before, err := measure(ctx)
			if err != nil {
				return err
			}
			if figure, err = perSecond(*moves, func() error { return moveAll(ctx, e, *moves, count, start) }); err != nil {
				return err
			}
			after, err := measure(ctx)
			if err != nil {
				return err
			}
			*note = fmt.Sprintf("%d moves of %d tasks: size %.2f times", *moves, count, after.size/before.size)
			if after.wal > 0 {
				*note += fmt.Sprintf(", %.0f bytes of WAL each", (after.wal-before.wal)/float64(*moves))
			}
			return nil
		})
		return figure, err
	}
}

func moveAll(ctx context.Context, e engine.Engine, n, count int, start time.Time) error {
	const callers, batch = 2, 64
	var next atomic.Int64
	var group errgroup.Group
	for range callers {
		group.Go(func() error {
			for {
				from := int(next.Add(batch)) - batch
				if from >= n {
					return nil
				}
				moves := make([]timeout.Move, min(batch, n-from))
				for i := range moves {
					key := timeout.Key{Topic: topic, ID: id((from + i) % count)}
					moves[i] = timeout.Move{Key: key, Due: start.Add(time.Duration(from+i) * time.Millisecond)}
				}
				answers, err := e.Move(ctx, moves)
				if err != nil {
					return err
				}
				for i, answer := range answers {
					if answer.Err != nil || answer.Was != timeout.Pending {
						return fmt.Errorf("move of %v: was %v, %w", moves[i].Key, answer.Was, answer.Err)
					}
				}
			}
		})
	}
	return group.Wait()
}

func redisStore(s *servers) func(context.Context) (store, error) {
	return func(ctx context.Context) (store, error) {
		used, err := s.server.UsedMemory(ctx)
		return store{size: used}, err
	}
}

func postgresStore(s *servers) func(context.Context) (store, error) {
	return func(ctx context.Context) (kept store, err error) {
		pool, err := pgxpool.New(ctx, s.postgres)
		if err != nil {
			return kept, err
		}
		defer pool.Close()
		err = pool.QueryRow(ctx, `SELECT pg_total_relation_size('ours.hw_tasks'), (pg_current_wal_lsn() - '0/0')::float8`).Scan(&kept.size, &kept.wal)
		return kept, err
	}
}

// sqliteStore is about the file of the open engine: how many pages it has, those in its WAL included.
func sqliteStore(s *servers) func(context.Context) (store, error) {
	return func(ctx context.Context) (kept store, err error) {
		paths, err := filepath.Glob(filepath.Join(s.dir, "sqlite*", "tasks.db-wal"))
		if err != nil {
			return kept, err
		}
		if len(paths) != 1 {
			return kept, fmt.Errorf("%d open files of SQLite in %s, must be 1", len(paths), s.dir)
		}
		db, err := sql.Open("sqlite", strings.TrimSuffix(paths[0], "-wal"))
		if err != nil {
			return kept, err
		}
		defer db.Close()
		err = db.QueryRowContext(ctx, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").Scan(&kept.size)
		return kept, err
	}
}
