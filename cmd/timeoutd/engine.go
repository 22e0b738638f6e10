package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

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

// opened is an engine with a name for people.
type opened struct {
	engine.Engine
	name string

	// oldest returns how long the oldest transaction of the database has been open. Nil means that this does not matter.
	oldest func(context.Context) (time.Duration, error)
}

// openEngine opens the engine named by the options, or SQLite if they name none.
func (o *options) openEngine(ctx context.Context, log *slog.Logger) (opened, error) {
	switch {
	case o.memory:
		e, err := memory.New(memory.Config{})
		return opened{Engine: e, name: "memory, and are gone when this ends"}, err
	case len(o.database) == 0 && o.redis != "":
		return o.openRedis(ctx, log)
	}
	open := o.openSQLite
	if len(o.database) > 0 {
		open = o.openPostgres
	}
	table, err := open(ctx, log)
	switch {
	case o.index:
		table.name += ", with a queue in memory in front of it"
	case o.redis != "":
		table.name += ", with Redis at " + where(o.redis) + " in front of it"
	}
	return table, err
}

// sqlitePath returns the absolute path of a file. An empty path means timeoutd.db in the data directory, which it
// makes. The directory of another path must be there: a missing one is that of a volume not mounted, or a mistake.
func sqlitePath(path string) (string, error) {
	if path == "" {
		dir, err := dataDir()
		if err == nil {
			err = os.MkdirAll(dir, 0o700)
		}
		return filepath.Join(dir, "timeoutd.db"), err
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	dir := filepath.Dir(path)
	switch info, err := os.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("the directory %s of the sqlite file %s is not there: make it, or mount its volume", dir, filepath.Base(path))
	case err != nil:
		return "", err
	case !info.IsDir():
		return "", fmt.Errorf("%s, with the sqlite file %s in it, is no directory (%v), must be one", dir, filepath.Base(path), info.Mode().Type())
	}
	return path, nil
}

// sqlitePaths returns the absolute paths of the files of the options, or that of the default.
func (o *options) sqlitePaths() ([]string, error) {
	paths := filepath.SplitList(o.sqlite)
	if len(paths) == 0 {
		paths = []string{""}
	}
	for i, path := range paths {
		var err error
		if paths[i], err = sqlitePath(path); err != nil {
			return nil, err
		}
	}
	return paths, nil
}

// dataDir returns the directory for the program's data: systemd's, or the one in the XDG base
// directory specification.
func dataDir() (string, error) {
	if dir := os.Getenv("STATE_DIRECTORY"); dir != "" {
		return filepath.SplitList(dir)[0], nil
	}
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "heartwheel"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("there is no directory for sqlite, say which file: %w", err)
	}
	return filepath.Join(home, ".local", "share", "heartwheel"), nil
}

// where returns the host and path of a URL, without its secrets.
func where(text string) string {
	u, err := url.Parse(text)
	if err != nil || strings.Contains(u.RawQuery+u.Fragment, "@") { // a question mark or a number sign in a password
		return ""
	}
	place := u.Host + u.Path
	return place[strings.LastIndexByte(place, '@')+1:] // a password of digits and a slash looks like a port and a path
}

// openSQLite opens the files of the options. If there is none, it opens one file in the data
// directory.
func (o *options) openSQLite(ctx context.Context, log *slog.Logger) (opened, error) {
	cfg := sqlite.Config{NoMigrate: o.migrate == migrateNever}
	if o.sync {
		cfg.Sync = sqlite.SyncFull
	}
	paths, err := o.sqlitePaths()
	if err != nil {
		return opened{}, err
	}
	engine, err := openShards(ctx, o, paths, log, func(_ context.Context, path string) (*sqlite.Engine, error) {
		return sqlite.Open(path, cfg)
	})
	return opened{Engine: engine, name: "SQLite at " + strings.Join(paths, ", ")}, err
}

// openPostgres opens the databases of the options. It listens on those to listen on, or on the same if there are none.
func (o *options) openPostgres(ctx context.Context, log *slog.Logger) (opened, error) {
	var all sync.Map // the engines, by URL
	engine, err := openShards(ctx, o, o.database, log, func(ctx context.Context, url string) (*postgres.Engine, error) {
		cfg := postgres.Config{NoMigrate: o.migrate == migrateNever}
		if len(o.listen) > 0 {
			cfg.ListenURL = o.listen[slices.Index(o.database, url)]
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
	var places []string
	for _, url := range o.database {
		places = append(places, where(url))
	}
	return opened{Engine: engine, name: "PostgreSQL at " + strings.Join(places, ", "), oldest: oldest}, err
}

// openShards opens one engine, or several engines with a part of the tasks each. Each has an index in front
// of it, if the options have one.
func openShards[E engine.Primary](ctx context.Context, o *options, at []string, log *slog.Logger, open func(context.Context, string) (E, error)) (engine.Engine, error) {
	if !o.index && o.redis == "" {
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
		front, err := o.openIndex(ctx, prefix, log)
		if err != nil {
			return nil, errors.Join(err, table.Close())
		}
		e, err := index.New(table, front, index.Config{Logger: log})
		if err != nil {
			return nil, errors.Join(err, front.Close(), table.Close())
		}
		return e, nil
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

// openIndex opens the index in front of a table: in memory, or in Redis. There its keys have the prefix, another one
// than the keys of a Redis used as the only store.
func (o *options) openIndex(ctx context.Context, prefix string, log *slog.Logger) (engine.Engine, error) {
	if o.index {
		return memory.New(memory.Config{})
	}
	return redis.Open(ctx, o.redis, redis.Config{Prefix: prefix, Logger: log})
}

func (o *options) openRedis(ctx context.Context, log *slog.Logger) (opened, error) {
	e, err := redis.Open(ctx, o.redis, redis.Config{Executions: o.redisExecutions, Logger: log})
	if err != nil {
		return opened{}, err
	}
	if !o.redisVolatile {
		volatile, err := e.Volatile(ctx)
		if err == nil && volatile {
			err = fmt.Errorf("the Redis at %s keeps nothing on disk (appendonly no, and save is empty), so all tasks are gone when it ends: "+
				"have it keep them, or say -redis-volatile", where(o.redis))
		}
		if err != nil {
			return opened{}, errors.Join(err, e.Close())
		}
	}
	return opened{Engine: e, name: "Redis at " + where(o.redis)}, nil
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
