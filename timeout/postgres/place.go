package postgres

import (
	"cmp"
	"context"
	"slices"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// place is the topic and the id of a task.
type place struct {
	topic *topic
	id    string
	index int // in the call's batch
}

// places are in the common order of locking rows, without duplicates.
type places []place

// locate finds the topics of keys. It returns the places with an existing topic, in rounds. A key
// named several times is in several rounds.
func (e *Engine) locate(ctx context.Context, exec executor, n int, key func(int) engine.Key) ([]places, error) {
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
	all := make(places, 0, n)
	for i := range n {
		if k := key(i); found[k.Topic] != nil {
			all = append(all, place{found[k.Topic], k.ID, i})
		}
	}
	return all.rounds(), nil
}

func (p place) compare(other place) int {
	return cmp.Or(cmp.Compare(p.topic.no, other.topic.no), cmp.Compare(p.id, other.id))
}

// rounds sorts the places, and puts each repetition of a key into a later round.
func (ps places) rounds() []places {
	slices.SortStableFunc(ps, place.compare)
	var later places
	first := ps[:0:len(ps)]
	for _, p := range ps {
		if len(first) > 0 && first[len(first)-1].compare(p) == 0 {
			later = append(later, p)
		} else {
			first = append(first, p)
		}
	}
	if len(first) == 0 {
		return nil
	}
	return append([]places{first}, later.rounds()...)
}

// columns returns the topics' numbers and the ids.
func (ps places) columns() (topics []int32, ids []string) {
	topics, ids = make([]int32, len(ps)), make([]string, len(ps))
	for i, p := range ps {
		topics[i], ids[i] = p.topic.no, p.id
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
