// Package cursor writes and reads the cursors of lists ordered by a time and a text. A cursor
// is the end of a page.
package cursor

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Write returns the cursor after a place: a time, and the text that orders entries of the same
// time.
func Write(at int64, rest string) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d/%s", at, rest))
}

// Read returns the place of a cursor. An empty cursor is a place before everything, with a time
// of -1. A cursor may be forged: the error wraps timeout.ErrArgument, and rest is any UTF-8
// without zeros.
func Read(cursor string) (at int64, rest string, err error) {
	if cursor == "" {
		return -1, "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	number, rest, found := strings.Cut(string(raw), "/")
	if err == nil {
		at, err = strconv.ParseInt(number, 10, 64)
	}
	if err != nil || !found || !utf8.ValidString(rest) || strings.Contains(rest, "\x00") || Write(at, rest) != cursor {
		return 0, "", fmt.Errorf("%w: cursor %.100q, must be the Next of a page", engine.ErrArgument, cursor)
	}
	return at, rest, nil
}
