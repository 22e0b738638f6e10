package main

import (
	"context"

	"github.com/heartwheel-go/heartwheel/timeout/memory"
	"github.com/heartwheel-go/heartwheel/timeout/redis"
	"github.com/heartwheel-go/heartwheel/timeout/sqlite"
)

func openMemory() (opened, error) {
	engine, err := memory.New(memory.Config{})
	return opened{engine, "memory, and are gone when this ends"}, err
}

// openSQLite opens a file, or the one where programs keep what is theirs.
func openSQLite(path string, sync bool) (opened, error) {
	path, err := sqlitePath(path)
	if err != nil {
		return opened{}, err
	}
	engine, err := sqlite.Open(path, sqlite.Config{Sync: sync})
	return opened{engine, "SQLite at " + path}, err
}

func openPostgres(_ context.Context, url string) (opened, error) {
	return opened{name: "PostgreSQL at " + where(url)}, errNotThere
}

func openRedis(ctx context.Context, url string) (opened, error) {
	engine, err := redis.Open(ctx, url, redis.Config{})
	return opened{engine, "Redis at " + where(url)}, err
}

// openIndexed has Redis in front of PostgreSQL.
func openIndexed(_ context.Context, redis, database string) (opened, error) {
	return opened{name: "PostgreSQL at " + where(database) + " with Redis at " + where(redis) + " in front of it"}, errNotThere
}
