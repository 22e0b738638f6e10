package api

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// mostFields is more than any object may have, other than a payload and headers.
const mostFields = 64

// object is an object or a list that a scan of JSON is in.
type object struct {
	names [][]byte // of its fields so far, up to mostFields
	exact bool     // headers: the case of their names counts
}

// checkTwice returns an error if an object in valid JSON has a field twice: the decoder would forget the first one.
// A payload may have such fields.
func checkTwice(text []byte) error {
	var open []object
	var name []byte // the field of the present value
	payload := 0    // the depth of the payload, if the scan is in one
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '{', '[':
			depth := len(open)
			if depth == cap(open) {
				open = append(open, object{})
			}
			open = open[:depth+1]
			open[depth].names, open[depth].exact = open[depth].names[:0], bytes.EqualFold(name, []byte("header"))
			if payload == 0 && bytes.EqualFold(name, []byte("payload")) {
				payload = depth + 1
			}
			name = nil
		case '}', ']':
			if payload == len(open) {
				payload = 0
			}
			open = open[:len(open)-1]
		case ',':
			name = nil
		case '"':
			from := i
			for i++; text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
			if rest := bytes.TrimLeft(text[i+1:], " \t\r\n"); payload > 0 || len(rest) == 0 || rest[0] != ':' {
				continue
			}
			name = unquoted(text[from : i+1])
			if !open[len(open)-1].add(name) {
				return fmt.Errorf("%w: field %.*q is there twice, must be there once", timeout.ErrArgument, maxShown, name)
			}
		}
	}
	return nil
}

// add reports whether a name is a new one.
func (o *object) add(name []byte) bool {
	for _, other := range o.names {
		if bytes.Equal(name, other) || !o.exact && bytes.EqualFold(name, other) {
			return false
		}
	}
	if len(o.names) < mostFields {
		o.names = append(o.names, name)
	}
	return true
}

func unquoted(text []byte) []byte {
	if bytes.IndexByte(text, '\\') < 0 {
		return text[1 : len(text)-1]
	}
	var name string
	_ = json.Unmarshal(text, &name)
	return []byte(name)
}
