package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// redisLog has what go-redis says of its connections be in the log, where all else is: it would
// write lines of its own to the standard error. What it means for tasks, such as a call that
// failed, is said by others.
type redisLog struct{ log *slog.Logger }

func (l redisLog) Printf(ctx context.Context, format string, v ...any) {
	l.log.WarnContext(ctx, "redis: "+strings.TrimSpace(fmt.Sprintf(format, v...)))
}

// adoptRedis has go-redis, which has one logger for the whole process, use this one.
func adoptRedis(log *slog.Logger) { goredis.SetLogger(redisLog{log}) }
