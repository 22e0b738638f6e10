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
	"strconv"
	"unicode/utf8"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// decode reads the body of a request. It must be one JSON value without unknown fields.
func (h *Handler) decode(w http.ResponseWriter, r *http.Request, into any) error {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return problem(http.StatusUnsupportedMediaType, "Content-Type %.*q, must be application/json", maxShown, r.Header.Get("Content-Type"))
	}
	body, err := h.readBody(w, r)
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
	return nil
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
		return fmt.Errorf("%w: field %.*q is a JSON %s, must be of type %s", timeout.ErrArgument, maxShown, kind.Field, kind.Value, kind.Type)
	case errors.As(err, &syntax):
		return fmt.Errorf("%w: no JSON at byte %d: %w", timeout.ErrArgument, syntax.Offset, syntax)
	default:
		return fmt.Errorf("%w: %.200s", timeout.ErrArgument, err.Error()) // a field's name can be long
	}
}

// queryOf returns the parameters of a request. Each must be known, and there only once.
func queryOf(r *http.Request, known ...string) (url.Values, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("%w: query: %w", timeout.ErrArgument, err)
	}
	for name, values := range query {
		if len(values) > 1 {
			return nil, fmt.Errorf("%w: parameter %.*q is there %d times, must be there once", timeout.ErrArgument, maxShown, name, len(values))
		}
		found := false
		for _, k := range known {
			found = found || k == name
		}
		if !found {
			return nil, fmt.Errorf("%w: parameter %.*q, must be one of %q", timeout.ErrArgument, maxShown, name, known)
		}
	}
	return query, nil
}

// limitOf reads a number of tasks. Without one it is zero.
func limitOf(text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > timeout.MaxPage {
		return 0, fmt.Errorf("%w: limit %.*q, must be a number from 1 to %d", timeout.ErrArgument, maxShown, text, timeout.MaxPage)
	}
	return n, nil
}
