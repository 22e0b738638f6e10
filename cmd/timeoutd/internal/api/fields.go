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

// checkFields returns an error if an object in valid JSON has a field twice, or anything is null: the decoder would
// forget the first field, and take null for a field that is not there. A payload may have both, and be null. With nulls,
// so may the fields of the outermost object.
func checkFields(text []byte, nulls bool) error {
	var open []object
	var name []byte // the field of the present value
	payload := 0    // the depth of the payload, if the scan is in one
	var null error  // of the first null; a field that is there twice comes first
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '{', '[':
			depth := len(open)
			if depth == cap(open) {
				open = append(open, object{})
			}
			open = open[:depth+1]
			open[depth].names, open[depth].exact = open[depth].names[:0], bytes.EqualFold(name, []byte("header"))
			if payload == 0 && isPayload(open[:depth], name) {
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
		case 'n': // no other value has one outside of a string
			switch {
			case null != nil || payload > 0 || isPayload(open, name) || nulls && len(open) == 1:
			case name == nil:
				null = fmt.Errorf("%w: an element of a list is null, must have a value", timeout.ErrArgument)
			default:
				null = fmt.Errorf("%w: field %.*q is null, must have a value or not be there", timeout.ErrArgument, maxShown, name)
			}
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
	return null
}

// isPayload reports whether a field of the innermost object is a payload, and no header.
func isPayload(open []object, name []byte) bool {
	return bytes.EqualFold(name, []byte("payload")) && !open[len(open)-1].exact
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
