package redis

import (
	"context"
	"fmt"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// Volatile reports whether a server keeps nothing on disk, neither an append-only file nor snapshots: all
// tasks are gone when it ends. It is false if servers don't tell, since those of some providers refuse
// CONFIG. In a Cluster it asks each master.
func (e *Engine) Volatile(ctx context.Context) (volatile bool, err error) {
	err = e.redis.EachMaster(ctx, func(ctx context.Context, client *goredis.Client) error {
		info, err := client.Info(ctx, "persistence").Result()
		if err != nil {
			return fmt.Errorf("timeout/redis: asking what is kept on disk: %w", err)
		}
		if !strings.Contains(info, "aof_enabled:0") {
			return nil
		}
		save, err := client.ConfigGet(ctx, "save").Result()
		if points, told := save["save"]; err == nil && told && points == "" {
			volatile = true
		}
		return nil
	})
	return volatile, err
}
