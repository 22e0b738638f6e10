package redis

import (
	"context"
	"strconv"

	"github.com/heartwheel-go/heartwheel/internal/redisrun"
)

// invocation is one run of a script for a partition, and what came of it.
type invocation struct {
	redisrun.Call
	room int // how many tasks it may find besides its own

	tasks []int // for the caller: what it is about
	at    *partition
	visit *visit // for Lease: what it may lease, or nil
}

func invoke(s *redisrun.Script, at *partition, args ...any) *invocation {
	return &invocation{Call: redisrun.Call{Script: s, Keys: at.keys, Args: args}, at: at}
}

// run runs scripts, see redisrun.Client.Run.
func (e *Engine) run(ctx context.Context, calls []*invocation) error {
	all := make([]*redisrun.Call, len(calls))
	for i, c := range calls {
		c.Weight = len(c.tasks) + c.room
		all[i] = &c.Call
	}
	return e.redis.Run(ctx, all)
}

// integer, text and list read a script's answer.
func integer(value any) int64 {
	switch value := value.(type) {
	case int64:
		return value
	case string:
		n, _ := strconv.ParseInt(value, 10, 64) // the scripts write numbers
		return n
	}
	return 0
}

func text(value any) string {
	s, _ := value.(string) // nil is what is not there
	return s
}

func list(value any) []any {
	l, _ := value.([]any)
	return l
}
