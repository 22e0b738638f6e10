package gateway

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// QuietRedis keeps the client of Redis from writing to stderr what it returns as an error, too. It
// is for main, since all clients of a process share it.
func QuietRedis() { redis.SetLogger(quiet{}) }

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}
