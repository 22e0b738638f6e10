package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/index"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
	"github.com/heartwheel-go/heartwheel/timeout/postgres"
	"github.com/heartwheel-go/heartwheel/timeout/redis"
	"github.com/heartwheel-go/heartwheel/timeout/sharded"
	"github.com/heartwheel-go/heartwheel/timeout/sqlite"
)

func openMemory() (opened, error) {
	engine, err := memory.New(memory.Config{})
	return opened{Engine: engine, name: "memory, and are gone when this ends"}, err
}

// openSQLite opens the files in list. If list is empty, it opens one file in the data
// directory.
func openSQLite(ctx context.Context, list string, sync bool, queue openQueue, log *slog.Logger) (opened, error) {
	cfg := sqlite.Config{}
	if sync {
		cfg.Sync = sqlite.SyncFull
	}
	files := filepath.SplitList(list)
	if len(files) == 0 {
		files = []string{""}
	}
	var paths []string
	for _, path := range files {
		path, err := sqlitePath(path)
		if err != nil {
			return opened{}, err
		}
		paths = append(paths, path)
	}
	engine, err := openShards(ctx, paths, queue, log, func(_ context.Context, path string) (*sqlite.Engine, error) {
		return sqlite.Open(path, cfg)
	})
	return opened{Engine: engine, name: "SQLite at " + strings.Join(paths, ", ")}, err
}

// openPostgres opens the databases of urls. It listens on those of listen, or on urls if there are none.
func openPostgres(ctx context.Context, urls, listen []string, queue openQueue, log *slog.Logger) (opened, error) {
	all := new(databases)
	engine, err := openShards(ctx, urls, queue, log, func(ctx context.Context, url string) (*postgres.Engine, error) {
		cfg := postgres.Config{}
		if len(listen) > 0 {
			cfg.ListenURL = listen[slices.Index(urls, url)]
		}
		e, err := postgres.Open(ctx, url, cfg)
		if err == nil {
			all.add(url, e)
		}
		return e, err
	})
	places := make([]string, len(urls))
	for i, url := range urls {
		places[i] = where(url)
	}
	return opened{Engine: engine, name: "PostgreSQL at " + strings.Join(places, ", "), oldest: all.oldest}, err
}

// databases are engines by their URLs.
type databases struct{ opened sync.Map }

func (d *databases) add(url string, e *postgres.Engine) { d.opened.Store(url, e) }

// oldest returns the age of the oldest transaction of all databases, or an error if one can't tell.
func (d *databases) oldest(ctx context.Context) (oldest time.Duration, err error) {
	for _, e := range d.opened.Range {
		age, failed := e.(*postgres.Engine).OldestTransaction(ctx)
		oldest, err = max(oldest, age), errors.Join(err, failed)
	}
	return oldest, err
}

// openShards opens one engine, or several engines with a part of the tasks each. Each has an index in front
// of it, unless queue is nil.
func openShards[E engine.Primary](ctx context.Context, at []string, queue openQueue, log *slog.Logger, open func(context.Context, string) (E, error)) (engine.Engine, error) {
	if queue == nil {
		return openEach(ctx, at, log, open)
	}
	return openEach(ctx, at, log, func(ctx context.Context, one string) (*index.Engine, error) {
		table, err := open(ctx, one)
		if err != nil {
			return nil, err
		}
		prefix := "timeout-index"
		if len(at) > 1 {
			prefix += fmt.Sprintf("-%d", slices.Index(at, one)+1)
		}
		front, err := queue(ctx, prefix)
		if err != nil {
			return nil, errors.Join(err, table.Close())
		}
		return index.New(table, front, index.Config{Logger: log})
	})
}

func openEach[E engine.Engine](ctx context.Context, at []string, log *slog.Logger, open func(context.Context, string) (E, error)) (engine.Engine, error) {
	if len(at) == 1 {
		e, err := open(ctx, at[0])
		if err != nil {
			return nil, err
		}
		if err := sharded.Alone(ctx, e); err != nil {
			return nil, errors.Join(err, e.Close())
		}
		return e, nil
	}
	shards := make([]func(context.Context) (E, error), len(at))
	for i, one := range at {
		shards[i] = func(ctx context.Context) (E, error) { return open(ctx, one) }
	}
	return sharded.Open(ctx, shards, sharded.Config{Logger: log})
}

func openRedis(ctx context.Context, url string, mayForget bool, log *slog.Logger) (opened, error) {
	e, err := redis.Open(ctx, url, redis.Config{Logger: log})
	if err != nil {
		return opened{}, err
	}
	if !mayForget {
		volatile, err := e.Volatile(ctx)
		if err == nil && volatile {
			err = fmt.Errorf("the Redis at %s keeps nothing on disk (appendonly no, and save is empty), so all tasks are gone when it ends: "+
				"have it keep them, or say -redis-volatile", where(url))
		}
		if err != nil {
			return opened{}, errors.Join(err, e.Close())
		}
	}
	return opened{Engine: e, name: "Redis at " + where(url)}, nil
}

// openQueue opens the index in front of a table. Its keys in Redis have the prefix: another one than the keys of a Redis
// used as the only store.
type openQueue func(ctx context.Context, prefix string) (engine.Engine, error)

// queue returns the index of the options and its name, or nil if they have none: a wheel in memory, or Redis.
func (o *options) queue(log *slog.Logger) (open openQueue, name string) {
	switch {
	case o.index:
		return func(context.Context, string) (engine.Engine, error) { return memory.New(memory.Config{}) }, "a queue in memory"
	case o.redis != "":
		return func(ctx context.Context, prefix string) (engine.Engine, error) {
			return redis.Open(ctx, o.redis, redis.Config{Prefix: prefix, Logger: log})
		}, "Redis at " + where(o.redis)
	default:
		return nil, ""
	}
}
