package postgres

import (
	"cmp"
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// target is the topic and the id of a task.
type target struct {
	topic *topic
	id    string
	index int // among the call's keys
}

// targets are in the common order of locking rows, without duplicates.
type targets []target

// inRounds returns a result for each of n keys. It calls fill for each round of keys with an existing topic, to add statements
// that read the results; repeated says that there are several rounds. A transaction has at most maxChunk keys. If size is not
// nil, it has one key or at most 8 MiB.
func inRounds[R any](ctx context.Context, e *Engine, exec executor, doing string, n int, key func(int) engine.Key, size func(int) int,
	fill func(results []R, batch *pgx.Batch, ts targets, repeated bool),
) ([]R, error) {
	const most = 8 << 20
	results := make([]R, n)
	for from, to := 0, 0; from < n; from = to {
		for bytes := 0; to < n && to-from < maxChunk; to++ {
			if size != nil {
				if bytes += size(to); bytes > most && to > from {
					break
				}
			}
		}
		rounds, err := e.locate(ctx, exec, from, to, key)
		if err == nil && len(rounds) > 0 {
			err = exec.send(ctx, doing, func(batch *pgx.Batch) {
				clear(results[from:to])
				for _, ts := range rounds {
					fill(results, batch, ts, len(rounds) > 1)
				}
			})
		}
		if err != nil {
			return nil, err
		}
	}
	return results, nil
}

// locate finds the topics of the keys of some indices. It returns the targets with an existing topic, in rounds. A key
// named several times is in several rounds.
func (e *Engine) locate(ctx context.Context, exec executor, from, to int, key func(int) engine.Key) ([]targets, error) {
	var names []string
	last := ""
	for i := from; i < to; i++ {
		if name := key(i).Topic; name != last && !slices.Contains(names, name) {
			names = append(names, name)
			last = name
		}
	}
	found, err := e.find(ctx, exec, names...)
	if err != nil {
		return nil, err
	}
	all := make(targets, 0, to-from)
	for i := from; i < to; i++ {
		if k := key(i); found[k.Topic] != nil {
			all = append(all, target{found[k.Topic], k.ID, i})
		}
	}
	return all.rounds(), nil
}

func (t target) compare(other target) int {
	return cmp.Or(cmp.Compare(t.topic.no, other.topic.no), cmp.Compare(t.id, other.id))
}

// rounds sorts the targets, and puts each repetition of a key into a later round.
func (ts targets) rounds() []targets {
	slices.SortStableFunc(ts, target.compare)
	var later targets
	first := ts[:0:len(ts)]
	for _, t := range ts {
		if len(first) > 0 && first[len(first)-1].compare(t) == 0 {
			later = append(later, t)
		} else {
			first = append(first, t)
		}
	}
	if len(first) == 0 {
		return nil
	}
	return append([]targets{first}, later.rounds()...)
}

// columns returns the topics' numbers and the ids.
func (ts targets) columns() (topics []int32, ids []string) {
	topics, ids = make([]int32, len(ts)), make([]string, len(ts))
	for i, t := range ts {
		topics[i], ids[i] = t.topic.no, t.id
	}
	return topics, ids
}
