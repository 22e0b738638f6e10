package sqlite

import (
	"context"
	"time"
)

const (
	wakeLook = 100 * time.Millisecond // between two looks for changes of others
	wakeRest = 250 * time.Millisecond // after a change, so that much writing of others costs no more than asking for it
)

// Wake is engine.Waker's. SQLite counts the changes of other connections (PRAGMA data_version). Beats
// and Ready are changes, too, so Wake also looks whether anybody has taken a number. It does not know
// of which topic the tasks are, and wakes all. A program that keeps the file to itself is not woken by
// its own changes, since its centre knows of them. If there are two centres with one Engine, both are.
func (e *Engine) Wake(ctx context.Context, wake func(topic string)) error {
	e.wakers.Add(1)
	defer e.wakers.Add(-1)
	seen, err := e.changes(ctx, changes{})
	if err != nil {
		return e.wrap("listening", err)
	}
	wake("")
	for pause := wakeLook; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		latest, err := e.changes(ctx, seen)
		if ctx.Err() != nil {
			return nil
		}
		var names []string
		if pause = wakeLook; err == nil && (latest.number != seen.number || latest.own != seen.own) {
			pause = wakeRest
			names, err = e.topicNames(ctx)
		}
		if err != nil {
			return e.wrap("listening", err)
		}
		seen = latest
		for _, name := range names {
			wake(name)
		}
	}
}

// changes is different after each change that a centre may not know of.
type changes struct {
	others int64 // the version of the file
	number int64 // the last number that was taken, as of that version or later
	own    int64
}

// changes returns the latest ones. It reads the number only if there are others than before.
func (e *Engine) changes(ctx context.Context, before changes) (c changes, err error) {
	if err := e.enter(ctx); err != nil {
		return c, err
	}
	defer e.use.RUnlock()
	if c.own = before.own; e.wakers.Load() > 1 {
		c.own = e.changed.Load()
	}
	if c.others, err = e.version(ctx); err != nil || c.others == before.others {
		c.number = before.number
		return c, err
	}
	_, err = one(ctx, e.reader, "SELECT value FROM hw_meta WHERE name = 'number'", nil, &c.number)
	return c, err
}

// version returns a number that differs after each commit of other connections.
func (e *Engine) version(ctx context.Context) (version int64, err error) {
	select {
	case e.lock <- struct{}{}:
		defer func() { <-e.lock }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	_, err = one(context.Background(), e.writer, "PRAGMA data_version", nil, &version)
	return version, err
}

func (e *Engine) topicNames(ctx context.Context) ([]string, error) {
	all, err := e.Topics(ctx)
	names := make([]string, len(all))
	for i, topic := range all {
		names[i] = topic.Name
	}
	return names, err
}
