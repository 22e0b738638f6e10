package gateway

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// QuietRedis keeps the client of Redis from writing to stderr: it returns the same errors. It
// is for main, since all clients of a process share one logger.
func QuietRedis() { redis.SetLogger(quiet{}) }

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}
