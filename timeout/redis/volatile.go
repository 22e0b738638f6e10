package redis

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	goredis "github.com/redis/go-redis/v9"
)

// Volatile reports whether a server keeps nothing on disk, neither an append-only file nor snapshots: all
// tasks are gone when it ends. It is false if servers don't tell, since those of some providers refuse
// CONFIG. In a Cluster it asks each master, and fails if none of them answers.
func (e *Engine) Volatile(ctx context.Context) (bool, error) {
	var volatile atomic.Bool
	err := e.redis.EachMaster(ctx, func(ctx context.Context, client *goredis.Client) error {
		info, err := client.Info(ctx, "persistence").Result()
		if err != nil {
			return fmt.Errorf("timeout/redis: asking what is kept on disk: %w", err)
		}
		if !strings.Contains(info, "aof_enabled:0") {
			return nil
		}
		save, err := client.ConfigGet(ctx, "save").Result()
		if points, told := save["save"]; err == nil && told && points == "" {
			volatile.Store(true)
		}
		return nil
	})
	return volatile.Load(), err
}
