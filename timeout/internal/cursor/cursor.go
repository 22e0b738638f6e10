// Package cursor writes and reads the cursors of lists that are in the order of a time and of
// something else: where a page has ended.
package cursor

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// Write returns the cursor behind a place: a time, and what orders those of the same time.
func Write(at int64, rest string) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d/%s", at, rest))
}

// Read returns the place of a cursor, and for an empty one a place before everything: a time of
// -1. Somebody else may have written it: the error wraps timeout.ErrArgument, and what comes
// after the time is UTF-8 without zeros, and else anything.
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
		return 0, "", fmt.Errorf("%w: cursor %.100q, must be the Next of a page", timeout.ErrArgument, cursor)
	}
	return at, rest, nil
}
