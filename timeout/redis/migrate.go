package redis

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// In versions before, a topic with more slots got other keys, a new generation, and its tasks were moved there while it was
// used. This file is for topics in the middle of that. Once no such version runs any more, and each topic was used
// since, it can go, with its scripts: seal, peek, insert, leave and settle.
const (
	sealing phase = "sealing" // the old slots are sealed, then the new ones made
	moving  phase = "moving"  // tasks are taken from the old slots to the new ones
)

// peekBytes is about how many bytes of bodies are moved at once, or one body that has more.
const peekBytes = 1 << 20

// generation is the old slots.
type generation struct {
	Gen   int64 `json:"gen"`
	Slots int   `json:"slots"`
}

// oldPartitions returns the partitions of the old slots, if there are any.
func (e *Engine) oldPartitions(l *layout) []*partition {
	if l.Old == nil {
		return nil
	}
	return e.partitions(l.Topic.Name, l.Old.Gen, l.Old.Slots)
}

// migrate moves all tasks of old slots to the new ones, and ends the old generation. All calls about the topic wait for that.
// Several processes may migrate at the same time, also ones of a version before. Each may end between any two steps, or
// stand still and go on later. A sealed slot gets no task, a new slot takes no id twice, and none of a generation
// that has ended. An old slot deletes a task only after a new one has it. So each task is in one of them, always.
func (e *Engine) migrate(ctx context.Context, l *layout) error {
	select {
	case e.migrating <- struct{}{}:
		defer func() { <-e.migrating }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	old := e.oldPartitions(l)
	if err := e.step("seal"); err != nil {
		return err
	}
	var highest int64
	err := e.all(ctx, old, func(at *partition) *invocation { return invoke(scriptSeal, at) }, func(c *invocation) error {
		highest = max(highest, integer(c.Answer[0]))
		return e.step("sealed")
	})
	if err != nil {
		return err
	}
	if err := e.makeParts(ctx, l.kept, l.partitions, highest+1, nil); err != nil {
		return err
	}
	if err := e.step("made"); err != nil {
		return err
	}
	for _, slot := range rand.Perm(len(old)) { // so that several processes share the work
		for more := true; more; {
			if more, err = e.migrateSome(ctx, l, old[slot]); err != nil {
				return err
			}
		}
	}
	if err := e.step("retire"); err != nil {
		return err
	}
	from := partOf(l.Old.Gen)
	err = e.all(ctx, l.partitions, func(at *partition) *invocation { return invoke(scriptSettle, at, from) }, nil)
	if err != nil {
		return err
	}
	if err := e.step("retired"); err != nil {
		return err
	}
	to := l.kept
	to.Phase, to.Old = steady, nil
	next, err := e.change(ctx, l, to)
	if err != nil {
		return err
	}
	if next == nil {
		now, err := e.load1(ctx, l.Topic.Name)
		switch {
		case err != nil && !errors.Is(err, engine.ErrNotFound):
			return err
		case err == nil && (now.Gen == l.Old.Gen || now.Old != nil):
			return nil // it is tried again
		}
	}
	return e.dropParts(ctx, old) // whoever was faster may have ended
}

// migrateSome moves the first tasks of an old slot, and reports whether there were any. It returns stale if a slot refuses:
// the topic has changed meanwhile, or a server has lost data.
func (e *Engine) migrateSome(ctx context.Context, l *layout, old *partition) (more bool, err error) {
	if err := e.step("peek"); err != nil {
		return false, err
	}
	peek := invoke(scriptPeek, old, batchTasks, peekBytes)
	peek.room, peek.Size = batchTasks, batchBytes
	if err := e.run(ctx, []*invocation{peek}); err != nil {
		return false, err
	}
	if peek.Status != "" {
		return false, errStale
	}
	tasks := list(peek.Answer[0])
	if len(tasks) == 0 {
		return false, nil
	}
	leave := invoke(scriptLeave, old)
	byPartition := make(map[*partition]*invocation)
	var inserts []*invocation
	for _, entry := range tasks {
		task := list(entry)
		at := l.partitions[engine.Slot(text(task[0]), len(l.partitions))]
		insert := byPartition[at]
		if insert == nil {
			insert = invoke(scriptInsert, at, partOf(l.Old.Gen))
			byPartition[at] = insert
			inserts = append(inserts, insert)
		}
		insert.Args = append(insert.Args, task...)
		insert.Size += len(text(task[3])) + len(text(task[5]))
		insert.room++
		leave.Args = append(leave.Args, task[0])
		leave.room++
	}
	if err := e.step("insert"); err != nil {
		return false, err
	}
	if err := e.run(ctx, inserts); err != nil {
		return false, err
	}
	for _, insert := range inserts {
		if insert.Status != "" && insert.Status != "settled" { // settled: the old slot's server has lost its last writes
			return false, errStale
		}
	}
	if err := e.step("leave"); err != nil {
		return false, err
	}
	return true, e.run(ctx, []*invocation{leave})
}
