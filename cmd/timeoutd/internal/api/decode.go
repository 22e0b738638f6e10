package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/sync/semaphore"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// decode reads the body of a request. It must be one JSON value without unknown fields, none twice and none null.
func (h *Handler) decode(w http.ResponseWriter, r *http.Request, into any) error {
	return h.decodeIn(h.bodies, h.cfg.MaxBody, w, r, into)
}

// decodeIn is decode for a body of most bytes at most. They take room.
func (h *Handler) decodeIn(room *semaphore.Weighted, most int64, w http.ResponseWriter, r *http.Request, into any) error {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return problem(http.StatusUnsupportedMediaType, "Content-Type %.*q, must be application/json", maxShown, r.Header.Get("Content-Type"))
	}
	body, err := h.readBody(w, r, room, most)
	if err != nil {
		return err
	}
	return unmarshal(body, into)
}

// unmarshal is json.Unmarshal for a stranger's text. The error wraps timeout.ErrArgument.
func unmarshal(body []byte, into any) error {
	if !utf8.Valid(body) { // the decoder would mend it, and an id would be another one
		return fmt.Errorf("%w: the body is not UTF-8", timeout.ErrArgument)
	}
	if trimmed := bytes.TrimLeft(body, " \t\r\n"); len(trimmed) > 0 && trimmed[0] != '{' { // null would be taken for {}
		return fmt.Errorf("%w: the body begins with %q, must be a JSON object", timeout.ErrArgument, trimmed[:1])
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return explain(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: there is something after the JSON value, at byte %d", timeout.ErrArgument, d.InputOffset())
	}
	topic, _ := into.(*topicBody)
	return checkFields(body, topic != nil && topic.patch)
}

// explain puts a decoder's error into words for the author of the JSON.
func explain(err error) error {
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, timeout.ErrArgument):
		return err
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%w: the body is empty, must be a JSON object", timeout.ErrArgument)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: the JSON ends before it is complete", timeout.ErrArgument)
	case errors.As(err, &kind):
		return fmt.Errorf("%w: field %.*q is a JSON %s, must be %s", timeout.ErrArgument, maxShown, pathOf(kind.Field), kind.Value, kindOf(kind.Type))
	case errors.As(err, &syntax):
		return fmt.Errorf("%w: no JSON at byte %d: %w", timeout.ErrArgument, syntax.Offset, syntax)
	default:
		return fmt.Errorf("%w: %.200s", timeout.ErrArgument, err.Error()) // a field's name can be long
	}
}

// pathOf leaves the names of embedded Go types out of a field's path.
func pathOf(field string) string {
	parts := slices.DeleteFunc(strings.Split(field, "."), func(part string) bool { return part != "" && 'A' <= part[0] && part[0] <= 'Z' })
	return strings.Join(parts, ".")
}

// kindOf returns JSON's word for a Go type.
func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Float64:
		return "a number"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 { // base64
			return "a string"
		}
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	default:
		return "a whole number"
	}
}

// checkQuery returns an error for a parameter that is unknown, empty, or there twice. An id with a
// question mark that was not escaped has such a query. An empty cause would mean all tasks.
func checkQuery(u *url.URL, known []string) error {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return fmt.Errorf("%w: query: %w", timeout.ErrArgument, err)
	}
	for name, values := range query {
		switch {
		case len(known) == 0:
			return fmt.Errorf("%w: parameter %.*q, must not be there (a question mark in an id is written as %%3F)", timeout.ErrArgument, maxShown, name)
		case !slices.Contains(known, name):
			return fmt.Errorf("%w: parameter %.*q, must be one of %q", timeout.ErrArgument, maxShown, name, known)
		case len(values) > 1 && !strings.HasSuffix(name, "[]"):
			return fmt.Errorf("%w: parameter %.*q is there %d times, must be there once", timeout.ErrArgument, maxShown, name, len(values))
		case name != "cursor" && slices.Contains(values, ""): // the first page has an empty cursor
			return fmt.Errorf("%w: parameter %.*q is empty, must have a value or not be there", timeout.ErrArgument, maxShown, name)
		}
	}
	if u.ForceQuery && len(known) == 0 {
		return fmt.Errorf("%w: a question mark without parameters, must not be there (in an id it is written as %%3F)", timeout.ErrArgument)
	}
	return nil
}

// metadataOf reads metadata as name=value. Without any it is nil.
func metadataOf(texts []string) (metadata map[string]string, err error) {
	for _, text := range texts {
		name, value, found := strings.Cut(text, "=")
		if other, twice := metadata[name]; !found || twice && other != value {
			return nil, fmt.Errorf("%w: metadata[] %.*q, must be name=value, each name once", timeout.ErrArgument, maxShown, text)
		}
		if metadata == nil {
			metadata = make(map[string]string)
		}
		metadata[name] = value
	}
	return metadata, nil
}

// limitOf reads a number of tasks. Without one it is zero.
func limitOf(text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > engine.MaxPage {
		return 0, fmt.Errorf("%w: limit %.*q, must be a number from 1 to %d", timeout.ErrArgument, maxShown, text, engine.MaxPage)
	}
	return n, nil
}
