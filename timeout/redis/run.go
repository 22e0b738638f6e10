package redis

import (
	"context"

	"github.com/heartwheel-go/heartwheel/internal/redisrun"
)

// invocation is one run of a script for a place, and what came of it.
type invocation struct {
	redisrun.Call
	room int // how many tasks it may find besides its own

	tasks []int // for the caller: what it is about
	at    *place
	visit *visit // for Expire: what it may lease, or nil
}

// The words of a refusal by a slot.
const (
	statusSealed = "sealed" // the topic has grown, or is gone
	statusGone   = "gone"   // the slot was never made, or has lost its data
	statusOpen   = "open"   // the slot should be sealed, and is not
)

func invoke(s *redisrun.Script, at *place, args ...any) *invocation {
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
