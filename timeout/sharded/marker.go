package sharded

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// The tasks of the topic engine.Reserved. Nobody leases them.
const (
	markerID  = "place"   // has the marker, and is set only if absent
	foundedID = "founded" // its presence means: all shards have a marker
	probeID   = "probe"   // is set to see whether changes hang
)

// marker is the identity of a shard, stored in it.
type marker struct {
	Set   string `json:"set"`   // unique for each list of shards
	Index int    `json:"place"` // from 0
	Of    int    `json:"of"`

	founded bool
}

// readMarker returns the marker of a shard. Without a marker, Set is empty.
func readMarker(ctx context.Context, e engine.Engine) (m marker, err error) {
	tasks, err := e.Get(ctx, []engine.Key{{Topic: engine.Reserved, ID: markerID}, {Topic: engine.Reserved, ID: foundedID}})
	if err != nil || tasks[0].State == engine.None {
		return m, err
	}
	if json.Unmarshal(tasks[0].Payload, &m) != nil || m.Set == "" {
		return m, fmt.Errorf("%w: marker %.100q of a shard can't be read", engine.ErrConflict, tasks[0].Payload)
	}
	m.founded = tasks[1].State != engine.None
	return m, nil
}

// writeMarker marks a shard without a marker, and returns the marker stored there.
func writeMarker(ctx context.Context, e engine.Engine, m marker) (marker, error) {
	payload, _ := json.Marshal(m) // strings and numbers can always be written
	if err := write(ctx, e, markerID, payload); err != nil {
		return m, err
	}
	return readMarker(ctx, e)
}

// never is the action time of the markers, far in the future.
var never = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

func write(ctx context.Context, e engine.Engine, id string, payload []byte) error {
	if _, err := e.SetTopic(ctx, engine.Topic{Name: engine.Reserved, Slots: 1, Paused: true}, true); err != nil {
		return err
	}
	answers, err := e.Set(ctx, []engine.Task{{Topic: engine.Reserved, ID: id, Payload: payload, Due: never, IfAbsent: true}})
	if err != nil {
		return err
	}
	return answers[0].Err
}

// Alone returns an error if an engine is one of several shards; it wraps engine.ErrConflict. Set
// through this engine alone, a task could be in the wrong shard.
func Alone(ctx context.Context, e engine.Engine) error {
	m, err := readMarker(ctx, e)
	if err == nil && m.Of > 1 {
		err = fmt.Errorf("%w: this is shard %d of %d, and must be used with the others", engine.ErrConflict, m.Index+1, m.Of)
	}
	return err
}

// found waits until the shards are open, and checks their markers: they must belong together in this order. The
// first time, it marks each shard with its index. Then it tells each shard of the end of the
// marking. So a shard without a marker among finished shards has lost its data or belongs to
// something else. found takes in the answering shards, and loses the others.
func (e *core) found(ctx context.Context) error {
	markers := make([]marker, len(e.shards))
	errs := e.readMarkers(ctx, markers)
	founded := slices.ContainsFunc(markers, func(m marker) bool { return m.founded })
	var missing []error
	for index, err := range errs {
		if err == nil {
			continue
		}
		missing = append(missing, e.of(e.shards[index], err))
		if errors.Is(err, engine.ErrConflict) || errors.Is(err, engine.ErrArgument) || errors.Is(err, engine.ErrClosed) || ctx.Err() != nil {
			return missing[len(missing)-1]
		}
	}
	switch {
	case founded:
		errs = e.readMarkers(ctx, markers) // some may have been marked in between
	case len(missing) > 0:
		return fmt.Errorf("timeout/sharded: the first time all shards must answer: %w", errors.Join(missing...))
	default:
		if err := e.markAll(ctx, markers); err != nil {
			return err
		}
	}
	if err := e.agree(markers); err != nil {
		return err
	}
	for index, s := range e.shards {
		if errs[index] == nil {
			errs[index] = e.checkMarker(s, markers[index])
		}
		if errors.Is(errs[index], engine.ErrConflict) {
			return e.of(s, errs[index])
		}
	}
	for index, s := range e.shards {
		if !founded {
			if err := write(ctx, s.engine, foundedID, nil); err != nil {
				return e.of(s, err)
			}
		}
		if errs[index] == nil {
			e.regain(s)
		} else {
			e.lose(s, errs[index])
		}
		s.doubt() // its topics are looked at
	}
	return ctx.Err()
}

// readMarkers reads the markers not read yet, of the shards that are open within CallTimeout.
func (e *core) readMarkers(ctx context.Context, markers []marker) []error {
	return e.together(func(index int) bool { return markers[index].Set == "" }, func(s *shard) (err error) {
		ctx, cancel := context.WithTimeout(ctx, e.cfg.CallTimeout)
		defer cancel()
		select {
		case <-s.tried:
		case <-ctx.Done():
			return fmt.Errorf("it is still being opened: %w", ctx.Err())
		}
		s.mu.Lock()
		engine, err := s.engine, s.failed
		s.mu.Unlock()
		if err == nil {
			markers[s.index], err = readMarker(ctx, engine)
		}
		return err
	})
}

// markAll marks the shards without a marker. If two nodes do so at the same time, both begin with the
// first shard, and the later one goes on with the marker found there.
func (e *core) markAll(ctx context.Context, markers []marker) error {
	set := rand.Text()
	for index, s := range e.shards {
		if markers[index].Set == "" {
			if err := e.unused(ctx, s); err != nil {
				return err
			}
		} else {
			set = markers[index].Set
		}
	}
	for index, s := range e.shards {
		m, err := writeMarker(ctx, s.engine, marker{Set: set, Index: index, Of: len(e.shards)})
		if err != nil {
			return e.of(s, err)
		}
		if index == 0 {
			set = m.Set
		}
		markers[index] = m
	}
	return nil
}

// unused refuses a shard with topics but no marker: its tasks would be in the wrong shard.
func (e *core) unused(ctx context.Context, s *shard) error {
	topics, err := s.engine.Topics(ctx)
	if err != nil {
		return e.of(s, err)
	}
	for _, topic := range topics {
		if topic.Name != engine.Reserved && len(e.shards) > 1 {
			return e.of(s, fmt.Errorf("%w: it has topic %q from a time when it was used alone, must be empty", engine.ErrConflict, topic.Name))
		}
	}
	return nil
}

// agree refuses shards of different lists.
func (e *core) agree(markers []marker) error {
	first := slices.IndexFunc(markers, func(m marker) bool { return m.Set != "" })
	for index, m := range markers {
		if m.Set != "" && m.Set != markers[first].Set {
			return fmt.Errorf("%w: shards %d and %d of %d do not belong together: they are of the lists %s and %s", engine.ErrConflict, first+1, index+1, len(markers), markers[first].Set, m.Set)
		}
	}
	if first >= 0 {
		e.list = markers[first].Set
	}
	return nil
}

// checkMarker refuses a shard without a marker, of another list, or of another index.
func (e *core) checkMarker(s *shard, m marker) error {
	switch {
	case m.Set == "":
		return fmt.Errorf("%w: it has no marker as the others have: it is another database, or has lost what it had", engine.ErrConflict)
	case m.Index != s.index || m.Of != len(e.shards):
		return fmt.Errorf("%w: it was made as shard %d of %d: neither the order nor the number of shards can change", engine.ErrConflict, m.Index+1, m.Of)
	case m.Set != e.list:
		return fmt.Errorf("%w: it is of the list %s, must be of %s", engine.ErrConflict, m.Set, e.list)
	}
	return nil
}
