package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// redisLog writes go-redis's messages about its connections to the program's log. By itself
// go-redis would write lines to standard error. The effect on tasks, such as a failed call, is
// logged elsewhere.
type redisLog struct{ log *slog.Logger }

func (l redisLog) Printf(ctx context.Context, format string, v ...any) {
	l.log.WarnContext(ctx, "redis: "+strings.TrimSpace(fmt.Sprintf(format, v...)))
}

// adoptRedis makes go-redis use log. go-redis has one logger for the whole process.
func adoptRedis(log *slog.Logger) { goredis.SetLogger(redisLog{log}) }
