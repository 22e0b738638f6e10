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

	goredis "github.com/redis/go-redis/v9"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/index"
	"github.com/heartwheel-go/heartwheel/timeout/members/etcd"
	"github.com/heartwheel-go/heartwheel/timeout/members/zookeeper"
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
	return opened{Engine: engine, name: "SQLite at " + strings.Join(paths, ", ")}, err
}

// openPostgres opens the databases of urls. It listens on those of listen, or on urls if there are none.
func openPostgres(ctx context.Context, urls, listen []string, log *slog.Logger) (opened, error) {
	var all sync.Map // the engines, by URL
	engine, err := openShards(ctx, urls, log, func(ctx context.Context, url string) (*postgres.Engine, error) {
		cfg := postgres.Config{}
		if len(listen) > 0 {
			cfg.ListenURL = listen[slices.Index(urls, url)]
		}
		e, err := postgres.Open(ctx, url, cfg)
		if err == nil {
			all.Store(url, e)
		}
		return e, err
	})
	oldest := func(ctx context.Context) (oldest time.Duration, err error) {
		for _, e := range all.Range {
			age, failed := e.(*postgres.Engine).OldestTransaction(ctx)
			oldest, err = max(oldest, age), errors.Join(err, failed) // of all databases
		}
		return oldest, err
	}
	places := make([]string, len(urls))
	for i, url := range urls {
		places[i] = where(url)
	}
	return opened{Engine: engine, name: "PostgreSQL at " + strings.Join(places, ", "), oldest: oldest}, err
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

// openIndex puts an index in front of a table: a wheel in memory, or Redis. Its keys in Redis have
// another prefix than the keys of a Redis used as the only store.
func (o *options) openIndex(ctx context.Context, table opened, log *slog.Logger) (opened, error) {
	truth, ok := table.Engine.(engine.Truth)
	if !ok {
		return opened{}, timeout.ErrUnsupported
	}
	var front engine.Engine
	var err error
	name := "a queue in memory"
	if o.index {
		front, err = memory.New(memory.Config{})
	} else {
		name = "Redis at " + where(o.redis)
		front, err = redis.Open(ctx, o.redis, redis.Config{Prefix: "timeout-index", Logger: log})
	}
	if err != nil {
		return opened{}, err
	}
	e, err := index.New(truth, front, index.Config{Logger: log})
	if err != nil {
		return opened{}, errors.Join(err, front.Close())
	}
	return opened{Engine: e, name: table.name + ", with " + name + " in front of it", oldest: table.oldest}, nil
}

// openMembers returns the register of nodes, or nil if the engine is the register.
func (o *options) openMembers(ends *closers) (engine.Members, error) {
	switch {
	case len(o.etcd) > 0:
		members, err := etcd.Open(o.etcd, etcd.Config{Username: o.etcdUser, Password: o.etcdPassword})
		if err != nil {
			return nil, fmt.Errorf("etcd: %w", err)
		}
		ends.add(members.Close)
		return members, nil
	case len(o.zookeeper) > 0:
		members, err := zookeeper.Open(o.zookeeper, zookeeper.Config{})
		if err != nil {
			return nil, fmt.Errorf("zookeeper: %w", err)
		}
		ends.add(members.Close)
		return members, nil
	default:
		return nil, nil
	}
}

// redisLog writes go-redis's messages about its connections to the program's log. By itself
// go-redis would write lines to standard error. The effect on tasks, such as a failed call, is
// logged elsewhere.
type redisLog struct{ log *slog.Logger }

func (l redisLog) Printf(ctx context.Context, format string, v ...any) {
	l.log.WarnContext(ctx, "redis: "+strings.TrimSpace(fmt.Sprintf(format, v...)))
}

// adoptRedis makes go-redis use log. go-redis has one logger for the whole process.
func adoptRedis(log *slog.Logger) { goredis.SetLogger(redisLog{log}) }
