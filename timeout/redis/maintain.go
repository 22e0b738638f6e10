package redis

import (
	"cmp"
	"context"
	"errors"
	"math"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

const (
	keepTasks = 256  // tasks of one kind and partition deleted by one script
	lookParts = 1024 // partitions to look at before any of them is kept
)

// Maintain implements engine.Engine. It also goes on with unfinished changes of topics, begun by others.
// Each call looks at all partitions, many in one run of a script. The
// partitions with something to do have runs of their own.
func (e *Engine) Maintain(ctx context.Context) (purged engine.Purged, err error) {
	layouts, err := e.loadAll(ctx)
	if err != nil {
		return purged, err
	}
	var failed error // a topic with an error holds up no other
	ready := layouts[:0]
	for _, read := range layouts {
		l, err := e.current(ctx, read)
		failed = errors.Join(failed, absent(err))
		if err == nil {
			ready = append(ready, l)
		}
	}
	bounds, err := e.bounds(ctx, ready)
	failed = errors.Join(failed, err)
	for len(ready) > 0 {
		group, partitions := 0, 0
		for group < len(ready) && partitions < lookParts {
			partitions += len(ready[group].partitions)
			group++
		}
		failed = errors.Join(failed, e.maintainAll(ctx, ready[:group], bounds, &purged))
		ready = ready[group:]
	}
	return purged, failed
}

// current returns the known layout of a topic if the one just read is the same. Otherwise it reads
// the topic again. So it does in a Cluster: the server of the topics may have lost changes.
func (e *Engine) current(ctx context.Context, read *layout) (*layout, error) {
	known := e.known(read.Topic.Name)
	if known != nil && known.raw == read.raw && !e.redis.Clustered() {
		return known, nil
	}
	return e.reload(ctx, read.Topic.Name)
}

// maintainAll keeps the partitions of some topics.
func (e *Engine) maintainAll(ctx context.Context, layouts []*layout, bounds map[*partition]bound, purged *engine.Purged) (failed error) {
	var looks []*invocation
	for _, l := range layouts {
		for _, at := range l.partitions {
			looks = append(looks, l.look(at))
		}
	}
	_ = e.run(ctx, looks) // each call has its own error
	for _, l := range layouts {
		failed = errors.Join(failed, e.keepParts(ctx, l, looks[:len(l.partitions)], bounds, purged))
		looks = looks[len(l.partitions):]
	}
	return failed
}

// keepParts keeps the partitions of a topic with a bound, and those with something to do by their looks. It mends
// partitions that refuse: nobody else may ask them.
func (e *Engine) keepParts(ctx context.Context, l *layout, looks []*invocation, bounds map[*partition]bound, purged *engine.Purged) error {
	var partitions []*partition
	var failure error
	mostDead := l.mostDead(looks)
	for _, c := range looks {
		switch {
		case c.Err != nil:
			failure = cmp.Or(failure, c.Err)
		case c.Status != "":
			purged.More = true
			if err := e.mend(ctx, l, c); !errors.Is(err, errStale) {
				failure = cmp.Or(failure, err)
			}
		default:
			if _, bound := bounds[c.at]; bound || integer(c.Answer[0]) == 1 || integer(c.Answer[1]) > mostDead {
				partitions = append(partitions, c.at)
			}
		}
	}
	err := e.all(ctx, partitions, func(at *partition) *invocation {
		most, ok := bounds[at]
		if !ok {
			most = unbound
		}
		most[1] = min(most[1], mostDead)
		return l.keep(at, keepTasks, most)
	}, func(c *invocation) error {
		if c.Status != "" {
			purged.More = true
			return nil
		}
		purged.More = purged.More || integer(c.Answer[0]) == 1
		purged.AddDead(l.Topic.Name, int(integer(c.Answer[1])))
		return nil
	})
	return cmp.Or(failure, err)
}

// mostDead returns how many dead tasks a partition may keep, by the looks at all partitions. If there are more than
// Topic.MaxDead, the partitions with the most lose first: tasks with the same text in braces are in one partition.
func (k kept) mostDead(looks []*invocation) int64 {
	var sizes []int64
	var total int64
	for _, c := range looks {
		if c.Err == nil && c.Status == "" {
			sizes = append(sizes, integer(c.Answer[1]))
			total += integer(c.Answer[1])
		}
	}
	most := int64(k.Topic.WithDefaults().MaxDead)
	if most < 0 || total <= most {
		return math.MaxInt64
	}
	return waterFill(sizes, most-1) + 1 // rounded up
}

// look is the script to find out whether keep has anything to do in a partition.
func (k kept) look(at *partition) *invocation {
	topic := k.Topic.WithDefaults()
	c := invoke(scriptLook, at, k.Rev, engine.CeilMillis(topic.RetainDead), k.says()[2])
	c.Keys = at.named(lookKeys)
	c.room = 1
	return c
}
