package redis

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// loggedTasks is how many tasks a script settles with a log: it rewrites their logs, and reads their bodies. lease.lua has the
// same bound for leases that have ended.
const loggedTasks = 64

// Logs reports whether the engine keeps a log of executions. Without Config.Executions it keeps none.
func (e *Engine) Logs() bool { return e.cfg.Executions > 0 }

// Executions is engine.Log's. It returns at most the last Config.Executions attempts of a task. If that is zero, the error wraps
// ErrUnsupported. A Topic.RetainLog set by another process counts from the next Maintain on, at the latest.
func (e *Engine) Executions(ctx context.Context, key engine.Key, limit int) (log []engine.Execution, err error) {
	if !e.Logs() {
		return nil, fmt.Errorf("%w: a log of executions: Executions of redis.Config is 0, must be 1 to %d", engine.ErrUnsupported, MaxExecutions)
	}
	err = e.using(ctx, key.Topic, func(l *layout) error {
		c := invoke(scriptLog, l.partition(key.ID), key.ID)
		if err := e.run(ctx, []*invocation{c}); err != nil {
			return err
		}
		if c.Status != "" {
			return e.mend(ctx, l, c)
		}
		log, err = readLog(text(c.Answer[1]), integer(c.Answer[0])-l.retainLog(), limit)
		if err != nil {
			return fmt.Errorf("timeout/redis: log of %v: %w", key, err)
		}
		return nil
	})
	return log, absent(err)
}

// retainLog is Topic.RetainLog in milliseconds.
func (k kept) retainLog() int64 { return engine.CeilMillis(k.Topic.WithDefaults().RetainLog) }

// told is what lease.lua has to know of an attempt for the log. It is empty if the log leaves the attempt out.
func told(outcome engine.Outcome) string {
	as := outcome.As
	switch outcomeCode(outcome) {
	case "r", "y", "g":
		return ""
	case "a":
		as = engine.Done
	case "f":
		as = engine.Dead
	}
	var started int64
	if !outcome.Started.IsZero() {
		started = outcome.Started.UnixMicro()
	}
	head := binary.BigEndian.AppendUint64([]byte{byte(as)}, uint64(started))
	return string(binary.BigEndian.AppendUint64(head, uint64(outcome.Took)))
}

// readLog returns the last attempts of a log that ended after a time in milliseconds, the latest first.
func readLog(log string, after int64, limit int) ([]engine.Execution, error) {
	const fixed = 6 + 7 + 4 + 1 + 8 + 8 + 1 // see head.lua
	var all []engine.Execution
	for rest := log[min(1, len(log)):]; rest != ""; {
		size := 0
		if len(rest) >= 2 {
			size = int(number(rest[:2]))
		}
		if size < fixed || len(rest) < 2+size || size < fixed+int(rest[2+fixed-1]) {
			return nil, fmt.Errorf("%d of its %d bytes are no attempt", len(rest), len(log))
		}
		one := rest[2 : 2+size]
		rest = rest[2+size:]
		if number(one[:6]) <= after {
			continue
		}
		name := fixed + int(one[fixed-1])
		x := engine.Execution{
			Version: number(one[6:13]), Attempt: int(number(one[13:17])), As: engine.State(one[17]),
			Took: time.Duration(number(one[26:34])), Node: one[fixed:name], Error: one[name:],
		}
		if started := number(one[18:26]); started != 0 {
			x.Started = time.UnixMicro(started)
		}
		all = append(all, x)
	}
	slices.Reverse(all)
	return all[:min(len(all), max(limit, 0))], nil
}
