package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// list is a list in a request, and the whole of it. It is read up to a number of elements and not beyond: a short
// element in JSON is long in memory, and millions of them fit into a body.
type list[T any] struct {
	name string
	most int
	list []T // nil if it was missing
}

func listOf[T any](name string, most int) *list[T] { return &list[T]{name: name, most: most} }

// body returns a pointer to a struct with the list as its only field, of that name in JSON.
func (l *list[T]) body() any {
	field := reflect.StructField{Name: "List", Type: reflect.TypeOf(l), Tag: reflect.StructTag(`json:"` + l.name + `"`)}
	body := reflect.New(reflect.StructOf([]reflect.StructField{field}))
	body.Elem().Field(0).Set(reflect.ValueOf(l))
	return body.Interface()
}

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
