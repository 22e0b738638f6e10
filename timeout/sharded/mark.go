package sharded

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// Reserved is the topic that each shard has for its mark. It can't be used for anything else.
const Reserved = "heartwheel.sharded"

// The two tasks of that topic. Nobody asks for what is due there.
const (
	placeID   = "place"   // has the mark, and is set only where it is not there
	foundedID = "founded" // says that all shards have one
)

// mark is what a shard has been told that it is.
type mark struct {
	Set   string `json:"set"`   // another one for each list of shards
	Place int    `json:"place"` // from 0
	Of    int    `json:"of"`

	founded bool
}

// readMark returns the mark of a shard, which has no Set where there is none.
func readMark(ctx context.Context, engine timeout.Engine) (m mark, err error) {
	tasks, err := engine.Get(ctx, []timeout.Key{{Topic: Reserved, ID: placeID}, {Topic: Reserved, ID: foundedID}})
	if err != nil || tasks[0].State == timeout.None {
		return m, err
	}
	if json.Unmarshal(tasks[0].Payload, &m) != nil || m.Set == "" {
		return m, fmt.Errorf("%w: mark %.100q of a shard can't be read", timeout.ErrConflict, tasks[0].Payload)
	}
	m.founded = tasks[1].State != timeout.None
	return m, nil
}

// writeMark marks a shard that has no mark, and returns the one that it has then.
func writeMark(ctx context.Context, engine timeout.Engine, m mark) (mark, error) {
	payload, err := json.Marshal(m)
	if err != nil {
		return m, err
	}
	if err := write(ctx, engine, placeID, payload); err != nil {
		return m, err
	}
	return readMark(ctx, engine)
}

// never is the last action time that there can be.
var never = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

func write(ctx context.Context, engine timeout.Engine, id string, payload []byte) error {
	if _, err := engine.SetTopic(ctx, timeout.Topic{Name: Reserved, Slots: 1, Paused: true}, true); err != nil {
		return err
	}
	answers, err := engine.Set(ctx, []timeout.Task{{Topic: Reserved, ID: id, Payload: payload, Due: never, IfAbsent: true}})
	if err != nil {
		return err
	}
	return answers[0].Err
}

// Alone returns an error that wraps timeout.ErrConflict where an engine is one of several shards:
// what is set by it alone can be where nobody looks for it.
func Alone(ctx context.Context, engine timeout.Engine) error {
	m, err := readMark(ctx, engine)
	if err == nil && m.Of > 1 {
		err = fmt.Errorf("%w: this is shard %d of %d, and must be used with the others", timeout.ErrConflict, m.Place+1, m.Of)
	}
	return err
}

// found opens the shards and looks whether they belong together in this order. The first time
// they are marked: each with its place, and then each with that this is done. So a shard without
// a mark that stands among others which have both is one that was lost or is another's.
func (e *core) found(ctx context.Context) error {
	marks := make([]mark, len(e.shards))
	errs := e.readMarks(ctx, marks)
	founded, all := false, true
	for place, err := range errs {
		if errors.Is(err, timeout.ErrConflict) || errors.Is(err, timeout.ErrArgument) || errors.Is(err, timeout.ErrClosed) || ctx.Err() != nil && err != nil {
			return e.of(e.shards[place], err)
		}
		founded, all = founded || marks[place].founded, all && err == nil
	}
	if !founded && !all {
		return fmt.Errorf("timeout/sharded: the first time all shards must answer: %w", errors.Join(e.named(errs)...))
	}
	if founded { // some may have got their mark since they were asked
		again := e.readMarks(ctx, marks)
		for place := range errs {
			errs[place] = errors.Join(errs[place], again[place])
		}
	}
	if !founded {
		if err := e.markAll(ctx, marks); err != nil {
			return err
		}
	}
	return e.admit(ctx, marks, errs)
}

// readMarks opens the shards and reads the marks of those that have none yet.
func (e *core) readMarks(ctx context.Context, marks []mark) []error {
	return e.together(func(place int) bool { return marks[place].Set == "" }, func(s *shard) (err error) {
		ctx, cancel := context.WithTimeout(ctx, e.cfg.Patience)
		defer cancel()
		engine, err := s.reached(ctx)
		if err == nil {
			marks[s.place], err = readMark(ctx, engine)
		}
		return err
	})
}

// named says of which shards errors are.
func (e *core) named(errs []error) []error {
	var named []error
	for place, err := range errs {
		if err != nil {
			named = append(named, e.of(e.shards[place], err))
		}
	}
	return named
}

// markAll marks what has no mark. Two that do it at the same time begin with the first shard,
// and the second one goes on with the mark of the first.
func (e *core) markAll(ctx context.Context, marks []mark) error {
	set := rand.Text()
	for place, s := range e.shards {
		if marks[place].Set == "" {
			if err := e.unused(ctx, s); err != nil {
				return err
			}
		} else {
			set = marks[place].Set
		}
	}
	for place, s := range e.shards {
		m, err := writeMark(ctx, s.engine, mark{Set: set, Place: place, Of: len(e.shards)})
		if err != nil {
			return e.of(s, err)
		}
		if place == 0 {
			set = m.Set
		}
		marks[place] = m
	}
	if err := e.agree(marks); err != nil {
		return err
	}
	for place, s := range e.shards {
		if err := e.checkMark(s, marks[place]); err != nil {
			return e.of(s, err)
		}
	}
	for _, s := range e.shards {
		if err := write(ctx, s.engine, foundedID, nil); err != nil {
			return e.of(s, err)
		}
		marks[s.place].founded = true
	}
	return nil
}

// unused refuses a shard that has topics and no mark: its tasks would be in the wrong place.
func (e *core) unused(ctx context.Context, s *shard) error {
	topics, err := s.engine.Topics(ctx)
	if err != nil {
		return e.of(s, err)
	}
	for _, topic := range topics {
		if topic.Name != Reserved && len(e.shards) > 1 {
			return e.of(s, fmt.Errorf("%w: it has topic %q from a time when it was used alone, must be empty", timeout.ErrConflict, topic.Name))
		}
	}
	return nil
}

// admit takes in the shards that have answered.
func (e *core) admit(ctx context.Context, marks []mark, errs []error) error {
	if err := e.agree(marks); err != nil {
		return err
	}
	for place, s := range e.shards {
		err := errs[place]
		if err == nil {
			err = e.checkMark(s, marks[place])
		}
		if errors.Is(err, timeout.ErrConflict) {
			return e.of(s, err)
		}
		if err == nil {
			e.regain(s)
		} else {
			e.lose(s, err)
		}
	}
	for _, s := range e.shards {
		s.doubt() // their topics are looked at
	}
	return ctx.Err()
}

// agree refuses shards of different lists.
func (e *core) agree(marks []mark) error {
	first := -1
	for place, m := range marks {
		switch {
		case m.Set == "":
		case first < 0:
			first = place
		case m.Set != marks[first].Set:
			return fmt.Errorf("%w: shards %d and %d of %d do not belong together: they are of the lists %s and %s", timeout.ErrConflict, first+1, place+1, len(marks), marks[first].Set, m.Set)
		}
	}
	if first >= 0 {
		e.mu.Lock()
		e.list = marks[first].Set
		e.mu.Unlock()
	}
	return nil
}

// checkMark refuses a shard that is in another place than it was made for.
func (e *core) checkMark(s *shard, m mark) error {
	e.mu.Lock()
	list := e.list
	e.mu.Unlock()
	switch {
	case m.Set == "":
		return fmt.Errorf("%w: it has no mark as the others have: it is another database, or has lost what it had", timeout.ErrConflict)
	case m.Place != s.place || m.Of != len(e.shards):
		return fmt.Errorf("%w: it was made as shard %d of %d: neither the order nor the number of shards can change", timeout.ErrConflict, m.Place+1, m.Of)
	case m.Set != list:
		return fmt.Errorf("%w: it is of the list %s, must be of %s", timeout.ErrConflict, m.Set, list)
	}
	return nil
}
