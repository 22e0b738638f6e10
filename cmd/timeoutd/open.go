package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/heartwheel-go/heartwheel/timeout"
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
	return opened{engine, "memory, and are gone when this ends"}, err
}

// openSQLite opens the files in list. If list is empty, it opens one file in the data
// directory.
func openSQLite(ctx context.Context, list string, sync bool, log *slog.Logger) (opened, error) {
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
	engine, err := openShards(ctx, paths, log, func(_ context.Context, path string) (*sqlite.Engine, error) {
		return sqlite.Open(path, cfg)
	})
	return opened{engine, "SQLite at " + strings.Join(paths, ", ")}, err
}

func openPostgres(ctx context.Context, urls []string, log *slog.Logger) (opened, error) {
	engine, err := openTables(ctx, urls, log)
	return opened{engine, "PostgreSQL at " + wheres(urls)}, err
}

func openTables(ctx context.Context, urls []string, log *slog.Logger) (engine.Engine, error) {
	return openShards(ctx, urls, log, func(ctx context.Context, url string) (*postgres.Engine, error) {
		return postgres.Open(ctx, url, postgres.Config{})
	})
}

// openShards opens one engine, or several engines with a part of the tasks each.
func openShards[E engine.Engine](ctx context.Context, at []string, log *slog.Logger, open func(context.Context, string) (E, error)) (engine.Engine, error) {
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

// wheres returns URLs without their secrets.
func wheres(urls []string) string {
	places := make([]string, len(urls))
	for i, url := range urls {
		places[i] = where(url)
	}
	return strings.Join(places, ", ")
}

func openRedis(ctx context.Context, url string, mayForget bool) (opened, error) {
	e, err := redis.Open(ctx, url, redis.Config{})
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
	return opened{e, "Redis at " + where(url)}, nil
}

// openIndexed puts Redis in front of PostgreSQL. Its keys have another prefix than the keys of
// a Redis used as the only store.
func openIndexed(ctx context.Context, redisURL string, databases []string, log *slog.Logger) (opened, error) {
	tables, err := openTables(ctx, databases, log)
	if err != nil {
		return opened{}, err
	}
	truth, ok := tables.(engine.Truth)
	if !ok {
		return opened{}, errors.Join(timeout.ErrUnsupported, tables.Close())
	}
	front, err := redis.Open(ctx, redisURL, redis.Config{Prefix: "timeout-index"})
	if err != nil {
		return opened{}, errors.Join(err, truth.Close())
	}
	e, err := index.New(truth, front, index.Config{Logger: log})
	if err != nil {
		return opened{}, errors.Join(err, truth.Close(), front.Close())
	}
	return opened{e, "PostgreSQL at " + wheres(databases) + ", with Redis at " + where(redisURL) + " in front of it"}, nil
}
