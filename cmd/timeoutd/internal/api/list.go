package api

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
)

// list is a list in a request. It is read up to a number of elements and not beyond: a short
// element in JSON is long in memory, and millions of them fit into a body.
type list[T any] struct {
	name string
	most int
	list []T // nil if it was missing
}

func listOf[T any](name string, most int) *list[T] { return &list[T]{name: name, most: most} }

// The bodies of batches.
type (
	settingsIn struct {
		Tasks *list[wire.KeyedSetting] `json:"tasks"`
	}
	movesIn struct {
		Moves *list[wire.KeyedMove] `json:"moves"`
	}
	keysIn[T any] struct {
		Keys *list[T] `json:"keys"`
	}
)

func settingsOf(l *list[wire.KeyedSetting]) any { return &settingsIn{l} }
func movesOf(l *list[wire.KeyedMove]) any       { return &movesIn{l} }
func keysOf[T any](l *list[T]) any              { return &keysIn[T]{l} }

// UnmarshalJSON reads a list. An error of an element wraps timeout.ErrArgument and names the
// element.
func (l *list[T]) UnmarshalJSON(text []byte) error {
	l.list = nil
	if text[0] != '[' {
		return json.Unmarshal(text, &l.list) // null, or no list
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	_, _ = d.Token() // the bracket
	l.list = []T{}
	for d.More() {
		if n := len(l.list); n == l.most {
			l.list = nil
			return fmt.Errorf("%w: at least %d tasks in a request, must be at most %d", timeout.ErrArgument, n+1, l.most)
		}
		var one T
		if err := d.Decode(&one); err != nil {
			return fmt.Errorf("%s[%d]: %w", l.name, len(l.list), explain(err))
		}
		l.list = append(l.list, one)
	}
	return nil
}
