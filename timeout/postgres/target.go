package postgres

import (
	"cmp"
	"context"
	"slices"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// target is the topic and the id of a task.
type target struct {
	topic *topic
	id    string
	index int // in the call's batch
}

// targets are in the common order of locking rows, without duplicates.
type targets []target

// locate finds the topics of keys. It returns the targets with an existing topic, in rounds. A key
// named several times is in several rounds.
func (e *Engine) locate(ctx context.Context, exec executor, n int, key func(int) engine.Key) ([]targets, error) {
	var names []string
	last := ""
	for i := range n {
		if name := key(i).Topic; name != last && !slices.Contains(names, name) {
			names = append(names, name)
			last = name
		}
	}
	found, err := e.find(ctx, exec, names...)
	if err != nil {
		return nil, err
	}
	all := make(targets, 0, n)
	for i := range n {
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

// chunks calls do for each part of n elements. A part has at most maxChunk elements. If size is not
// nil, a part has one element or at most 8 MiB.
func chunks(n int, size func(int) int, do func(from, to int) error) error {
	const most = 8 << 20
	for from := 0; from < n; {
		to, bytes := from, 0
		for to < n && to-from < maxChunk {
			if size != nil {
				if bytes += size(to); bytes > most && to > from {
					break
				}
			}
			to++
		}
		if err := do(from, to); err != nil {
			return err
		}
		from = to
	}
	return nil
}
