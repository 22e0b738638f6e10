package sqlite

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// A row of hw_meta stands for each lease ended by a set, a removal or a drop, for about endedKept. Its name is endedMark,
// a number of the counter, a space, the topic, a space, and the ID or nothing. So the names are in the order of the
// commits, and the counter is close to the clock.
const (
	endedMark = "ended "
	endedNext = "ended!" // after all these names
	endedLook = 40 * time.Millisecond
	endedKept = 10 * time.Second
)

func endedName(number int64) string { return fmt.Sprintf("%s%019d ", endedMark, number) }

// tellEnded writes a row for each key, and deletes old ones.
func tellEnded(ctx context.Context, s *session, ended []engine.Key) error {
	if len(ended) == 0 {
		return nil
	}
	number, err := numbers(ctx, s, len(ended))
	if err != nil {
		return err
	}
	if _, err := s.ExecContext(ctx, "DELETE FROM hw_meta WHERE name > ? AND name < ?", endedMark, endedName(number-endedKept.Microseconds())); err != nil {
		return err
	}
	for i, key := range ended {
		number := number + int64(i)
		if _, err := s.ExecContext(ctx, "INSERT INTO hw_meta (name, value) VALUES (?, ?)", endedName(number)+key.Topic+" "+key.ID, number); err != nil {
			return err
		}
	}
	return nil
}

const endedNames = "SELECT name FROM hw_meta WHERE name > ? AND name < ? ORDER BY name"

// endedSince returns the keys of the rows after a name, and the last name. After an empty name it returns no keys.
func (e *Engine) endedSince(ctx context.Context, name string) (ended []engine.Key, last string, err error) {
	names, err := call(ctx, e, "listening", func() ([]string, error) {
		if name == "" {
			return column[string](ctx, e.reader, "SELECT coalesce(max(name), ?1) FROM hw_meta WHERE name >= ?1 AND name < ?2", endedMark, endedNext)
		}
		return column[string](ctx, e.reader, endedNames, name, endedNext)
	})
	if last = name; len(names) > 0 {
		last = names[len(names)-1]
	}
	for _, one := range names {
		if parts := strings.SplitN(one, " ", 4); name != "" && len(parts) == 4 {
			ended = append(ended, engine.Key{Topic: parts[2], ID: parts[3]})
		}
	}
	return ended, last, err
}
