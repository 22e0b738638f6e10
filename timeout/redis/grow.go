package redis

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

const (
	// peekTasks is how many tasks are looked at, or taken over, by one script.
	peekTasks = 64

	// peekBytes is about how many bytes of bodies, or one body that has more.
	peekBytes = 1 << 20

	// moveTasks is about how many tasks are moved on the side by one call.
	moveTasks = 512
)

// startGrowth begins a new generation, with another number of slots or the same. It returns
// nil if the caller must try again.
func (e *Engine) startGrowth(ctx context.Context, now *layout, topic engine.Topic) (*layout, error) {
	gen, err := e.number(ctx, max(now.Rev, now.Gen))
	if err != nil {
		return nil, err
	}
	to := now.kept
	to.Topic, to.Phase, to.Rev, to.Gen = topic, sealing, gen, gen
	to.Old = &generation{now.Gen, now.Topic.Slots}
	next, err := e.change(ctx, now, to)
	if err != nil || next == nil {
		return nil, err
	}
	if err := e.grow(ctx, next); err != nil {
		return nil, err
	}
	return e.reload(ctx, topic.Name)
}

// grow seals the old slots and makes the new ones: when it returns, somebody has done so.
// From the first of its steps on, all other users of the topic do the same.
func (e *Engine) grow(ctx context.Context, l *layout) error {
	if err := e.step("seal"); err != nil {
		return err
	}
	var highest int64
	err := e.all(ctx, l.old, func(at *place) *invocation { return invoke(scriptSeal, at) }, func(c *invocation) error {
		highest = max(highest, integer(c.Answer[0]))
		return e.step("sealed")
	})
	if err != nil {
		return err
	}
	if err := e.makeSlots(ctx, l.kept, l.places, highest+1); err != nil {
		return err
	}
	if err := e.step("made"); err != nil {
		return err
	}
	to := l.kept
	to.Phase = moving
	_, err = e.change(ctx, l, to)
	return err
}

// errStale means a change of the topic since this process has read it: see using.
var errStale = errors.New("timeout/redis: topic has changed")

// migrateIDs moves tasks of the given ids, as far as they are in old slots, to where they belong
// now. After that the new slots are right about them, for ever: a sealed slot gets no task. The
// exceptions are the tasks of the old slots in away. Their server did not answer, or that of their
// new slots.
func (e *Engine) migrateIDs(ctx context.Context, l *layout, ids []string) (away map[int]error, err error) {
	away = make(map[int]error)
	bySlot := make(map[int][]any)
	var calls []*invocation
	flush := func(slot int) {
		calls = append(calls, peek(l.old[slot], 0, bySlot[slot]))
		delete(bySlot, slot)
	}
	for _, id := range ids {
		slot := engine.Slot(id, len(l.old))
		if l.empty[slot].Load() {
			continue
		}
		if bySlot[slot] = append(bySlot[slot], id); len(bySlot[slot]) == peekTasks {
			flush(slot)
		}
	}
	for slot := range bySlot {
		flush(slot)
	}
	for len(calls) > 0 {
		if err := e.transfer(ctx, l, calls); err != nil {
			return nil, err
		}
		for _, c := range calls {
			if c.Err != nil {
				away[c.at.slot] = c.Err
			}
		}
		calls = unseen(calls)
	}
	return away, nil
}

// peek looks at the tasks of some ids, or at the first ones. Its answer can be as large as those of
// several slots in one run may be together, so it has a run of its own.
func peek(at *place, limit int, ids []any) *invocation {
	c := invoke(scriptPeek, at, append([]any{limit, peekBytes}, ids...)...)
	c.room, c.Size = max(limit, len(ids)), batchBytes
	return c
}

// unseen returns looks at the ids left out by others, for the size of the bodies.
func unseen(peeks []*invocation) (left []*invocation) {
	for _, c := range peeks {
		ids := c.Args[2:]
		if c.Err == nil && integer(c.Answer[0]) > 0 && len(ids) > 0 {
			if ids = ids[integer(c.Answer[2]):]; len(ids) > 0 {
				left = append(left, peek(c.at, 0, ids))
			}
		}
	}
	return left
}

// migrateSome moves some of the tasks of old slots, and reports whether there are more. A nil slots
// is all.
func (e *Engine) migrateSome(ctx context.Context, l *layout, slots []int) (more bool, err error) {
	if l.old == nil {
		return false, nil
	}
	var calls []*invocation
	first := rand.IntN(len(l.old)) // so that the slots of a silent server are not always among them
	for n := range l.old {
		slot := (first + n) % len(l.old)
		if !l.empty[slot].Load() && len(calls) < moveTasks/peekTasks && l.mapsTo(slot, slots) {
			calls = append(calls, peek(l.old[slot], peekTasks, nil))
		}
	}
	if err := e.transfer(ctx, l, calls); err != nil {
		return true, err
	}
	for _, c := range calls {
		if c.Err != nil {
			return true, c.Err
		}
	}
	left := 0
	for slot := range l.old {
		if l.empty[slot].Load() {
			left++
		} else if l.mapsTo(slot, slots) {
			more = true
		}
	}
	if left == len(l.old) {
		return false, e.retire(ctx, l)
	}
	return more, nil
}

// mapsTo reports whether tasks of an old slot can belong to one of some new ones. A nil slots is all.
func (l *layout) mapsTo(old int, slots []int) bool {
	return slots == nil || slices.ContainsFunc(slots, func(slot int) bool { return slot&(len(l.old)-1) == old })
}

// moveAll moves all tasks of old slots, if there are any. It retires their generation, unless somebody else
// changes the topic.
func (e *Engine) moveAll(ctx context.Context, l *layout) (err error) {
	for more := true; more && err == nil; {
		more, err = e.migrateSome(ctx, l, nil)
	}
	return err
}

// transfer looks into old slots, has new ones take over their tasks, and deletes these from the
// old ones then. Several may do it at the same time, and may leave it and begin anew anywhere: a
// sealed slot's answer about a task stays true, a new slot takes no id twice, and an old one
// deletes a task only after another slot has taken it over. If a server does not answer, the peeks
// with tasks there have an Err, and the others go on.
func (e *Engine) transfer(ctx context.Context, l *layout, peeks []*invocation) error {
	if len(peeks) == 0 {
		return nil
	}
	if err := e.step("peek"); err != nil {
		return err
	}
	_ = e.run(ctx, peeks) // each has an error of its own
	var hops []*hop
	for _, c := range peeks {
		switch {
		case c.Err != nil:
		case c.Status == statusOpen || c.Status == statusGone:
			return e.reseal(ctx, l, c.at)
		case integer(c.Answer[0]) == 0:
			l.empty[c.at.slot].Store(true)
		default:
			hops = append(hops, l.hops(c)...)
		}
	}
	if err := e.step("insert"); err != nil {
		return err
	}
	inserts := make([]*invocation, len(hops))
	for i, h := range hops {
		inserts[i] = h.insert
	}
	_ = e.run(ctx, inserts)
	bySlot := make(map[*place]*invocation)
	var leaves []*invocation
	for _, h := range hops {
		if h.insert.Status != "" {
			return e.mend(ctx, l, h.insert)
		}
		if h.insert.Err != nil {
			h.peek.Err = h.insert.Err
			continue
		}
		leave := bySlot[h.peek.at]
		if leave == nil || len(leave.Args)+len(h.ids) > batchTasks {
			leave = invoke(scriptLeave, h.peek.at)
			bySlot[h.peek.at] = leave
			leaves = append(leaves, leave)
		}
		leave.Args = append(leave.Args, h.ids...)
		leave.room += len(h.ids)
	}
	if err := e.step("leave"); err != nil {
		return err
	}
	return e.run(ctx, leaves)
}

// hop takes tasks of one old slot to one new slot.
type hop struct {
	peek, insert *invocation
	ids          []any
}

// hops returns the hops for the tasks of a peek.
func (l *layout) hops(peek *invocation) (hops []*hop) {
	bySlot := make(map[*place]*hop)
	for _, entry := range list(peek.Answer[1]) {
		task := list(entry)
		at := l.slot(text(task[0]))
		h := bySlot[at]
		if h == nil {
			h = &hop{peek: peek, insert: invoke(scriptInsert, at, partOf(l.Old.Gen))}
			bySlot[at] = h
			hops = append(hops, h)
		}
		h.insert.Args = append(h.insert.Args, task...)
		h.insert.Size += len(text(task[3]))
		h.insert.room++
		h.ids = append(h.ids, task[0])
	}
	return hops
}

// reseal is for an old slot in a wrong state: the topic has changed meanwhile, or the slot's data
// was lost.
func (e *Engine) reseal(ctx context.Context, l *layout, at *place) error {
	if now, err := e.load1(ctx, l.Topic.Name); err != nil || now.raw != l.raw {
		return errStale
	}
	if err := e.run(ctx, []*invocation{invoke(scriptSeal, at)}); err != nil {
		return err
	}
	return errStale
}

// mend is for a refusal by a slot: it reads the topic again. If the topic is the same, a server has
// lost data. If the slot is gone, mend makes it anew. If it is sealed and should be open, a change
// of the topic was lost, and mend makes it again. It returns stale if there is hope.
func (e *Engine) mend(ctx context.Context, l *layout, c *invocation) error {
	now, err := e.load1(ctx, l.Topic.Name)
	if err != nil || now.raw != l.raw {
		return errStale // the next reader of the topic finds out
	}
	if c.Status == statusSealed {
		if l.Phase == steady {
			if _, err := e.startGrowth(ctx, l, l.Topic); err != nil {
				return err
			}
		}
		return errStale
	}
	if err := e.makeSlots(ctx, l.kept, []*place{c.at}, 0); err != nil {
		return err
	}
	return errStale
}

// retire ends an empty generation.
func (e *Engine) retire(ctx context.Context, l *layout) error {
	if err := e.step("retire"); err != nil {
		return err
	}
	from := partOf(l.Old.Gen)
	err := e.all(ctx, l.places, func(at *place) *invocation { return invoke(scriptSettle, at, from) }, nil)
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
	if next != nil {
		e.learn(next)
		return e.dropSlots(ctx, l.old)
	}
	now, err := e.load1(ctx, l.Topic.Name)
	switch {
	case err != nil && !errors.Is(err, engine.ErrNotFound):
		return err
	case err == nil && (now.Gen == l.Old.Gen || now.Old != nil && now.Old.Gen == l.Old.Gen):
		return nil // it is tried again
	}
	return e.dropSlots(ctx, l.old) // whoever ended the generation may have ended, too
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
