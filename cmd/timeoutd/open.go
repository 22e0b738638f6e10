package main

import (
	"context"
	"errors"

	"github.com/heartwheel-go/heartwheel/timeout/index"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
	"github.com/heartwheel-go/heartwheel/timeout/postgres"
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
	cfg := sqlite.Config{}
	if sync {
		cfg.Sync = sqlite.SyncFull
	}
	engine, err := sqlite.Open(path, cfg)
	return opened{engine, "SQLite at " + path}, err
}

func openPostgres(ctx context.Context, url string) (opened, error) {
	engine, err := postgres.Open(ctx, url, postgres.Config{})
	return opened{engine, "PostgreSQL at " + where(url)}, err
}

func openRedis(ctx context.Context, url string) (opened, error) {
	engine, err := redis.Open(ctx, url, redis.Config{})
	return opened{engine, "Redis at " + where(url)}, err
}

// openIndexed has Redis in front of PostgreSQL. Its keys are others than those of a Redis
// that keeps tasks by itself.
func openIndexed(ctx context.Context, redisURL, database string) (opened, error) {
	truth, err := postgres.Open(ctx, database, postgres.Config{})
	if err != nil {
		return opened{}, err
	}
	front, err := redis.Open(ctx, redisURL, redis.Config{Prefix: "timeout-index"})
	if err != nil {
		return opened{}, errors.Join(err, truth.Close())
	}
	engine, err := index.New(truth, front, index.Config{})
	if err != nil {
		return opened{}, errors.Join(err, truth.Close(), front.Close())
	}
	return opened{engine, "PostgreSQL at " + where(database) + ", with Redis at " + where(redisURL) + " in front of it"}, nil
}
