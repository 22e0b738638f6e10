package redis

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	goredis "github.com/redis/go-redis/v9"
)

// samples is how many ended tasks of a state and partition tell the size of all.
const samples = 16

// bound is how many done, dead and removed tasks a partition may keep.
type bound [3]int64

var unbound = bound{math.MaxInt64, math.MaxInt64, math.MaxInt64}

// pressure is the partitions of a nearly full server.
type pressure struct {
	excess     int64 // bytes to be freed
	least      int64 // bytes that the ended tasks may have in any case
	partitions []*partition
}

// bounds returns the bounds of partitions with too many ended tasks. At maxmemory Redis refuses new tasks, and
// ended ones must not be the cause. So they make room while more than three quarters of it are in use, and
// keep an eighth. In a Cluster each server has a maxmemory of its own.
func (e *Engine) bounds(ctx context.Context, layouts []*layout) (bounds map[*partition]bound, failed error) {
	pressures := make(map[*goredis.Client]*pressure)
	for _, l := range layouts {
		for _, at := range l.partitions {
			key := at.keys[0].(string)
			client, err := e.redis.ForKey(ctx, key)
			if err != nil {
				return nil, err
			}
			c, asked := pressures[client]
			if !asked {
				c, err = e.pressureOf(ctx, key)
				pressures[client] = c
				failed = errors.Join(failed, err)
			}
			if c != nil {
				c.partitions = append(c.partitions, at)
			}
		}
	}
	bounds = make(map[*partition]bound)
	for _, c := range pressures {
		if c != nil {
			failed = errors.Join(failed, e.share(ctx, c, bounds))
		}
	}
	return bounds, failed
}

// pressureOf returns a pressure without partitions if the server of a key is nearly full, or else nil.
func (e *Engine) pressureOf(ctx context.Context, key string) (c *pressure, err error) {
	err = e.redis.OnKey(ctx, key, func(client *goredis.Client) error {
		info, err := client.InfoMap(ctx, "memory").Result()
		if err != nil {
			return fmt.Errorf("timeout/redis: asking for the memory in use: %w", err)
		}
		used, _ := strconv.ParseInt(info["Memory"]["used_memory"], 10, 64)
		most, _ := strconv.ParseInt(info["Memory"]["maxmemory"], 10, 64)
		if excess := used - most/4*3; most > 0 && excess > 0 {
			c = &pressure{excess: excess, least: most / 8}
		}
		return nil
	})
	return c, err
}

// share deals the room for ended tasks out to partitions. The partitions with the most lose first.
func (e *Engine) share(ctx context.Context, c *pressure, bounds map[*partition]bound) error {
	type weight struct {
		counts bound
		bytes  int64
	}
	weights := make(map[*partition]weight)
	var sizes []int64
	var total int64
	err := e.all(ctx, c.partitions, func(at *partition) *invocation {
		c := invoke(scriptEstimate, at, samples)
		c.Keys, c.room = at.named(endedKeys), samples
		return c
	}, func(c *invocation) error {
		w := weight{bytes: integer(c.Answer[0])}
		for i := range w.counts {
			w.counts[i] = integer(c.Answer[i+1])
		}
		weights[c.at] = w
		sizes = append(sizes, w.bytes)
		total += w.bytes
		return nil
	})
	if err != nil {
		return err
	}
	most := waterFill(sizes, max(c.least, total-c.excess))
	for at, w := range weights {
		if w.bytes > most {
			for i, count := range w.counts {
				w.counts[i] = int64(float64(count) * float64(most) / float64(w.bytes))
			}
			bounds[at] = w.counts
		}
	}
	return nil
}

// waterFill returns the highest bound on each of some sizes that keeps their sum within total.
func waterFill(sizes []int64, total int64) int64 {
	slices.Sort(sizes)
	for i, size := range sizes {
		if each := total / int64(len(sizes)-i); size > each {
			return each
		}
		total -= size
	}
	return math.MaxInt64
}
