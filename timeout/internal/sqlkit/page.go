package sqlkit

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// Cursor is behind which task a list goes on. Lists are in the order of time and id over all
// slots, so that a task stays where it is in the list when it is given another slot.
type Cursor struct {
	At int64
	ID string
}

// Start is the cursor of the first page.
var Start = Cursor{At: -1}

// String writes a cursor as text.
func (c Cursor) String() string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(c.At, 10) + "\n" + c.ID))
}

// ParseCursor reads what String has written. The error wraps ErrArgument.
func ParseCursor(text string) (Cursor, error) {
	if text == "" {
		return Start, nil
	}
	bad := fmt.Errorf("%w: cursor %.300q, must be the Next of a page", timeout.ErrArgument, text)
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return Cursor{}, bad
	}
	at, id, found := strings.Cut(string(raw), "\n")
	ms, err := strconv.ParseInt(at, 10, 64)
	if !found || err != nil || ms < 0 || (timeout.Key{Topic: "x", ID: id}).Check() != nil {
		return Cursor{}, bad
	}
	return Cursor{ms, id}, nil
}

// CheckQuery fills in the limit of a query, and reads its cursor. The error wraps
// ErrArgument.
func CheckQuery(query *timeout.Query) (Cursor, error) {
	query.Limit = cmp.Or(query.Limit, 100)
	if query.Limit < 0 || query.Limit > timeout.MaxPage {
		return Cursor{}, fmt.Errorf("%w: Limit %d of a list, must be 0 to %d", timeout.ErrArgument, query.Limit, timeout.MaxPage)
	}
	if query.State == timeout.None || query.State > timeout.Removed {
		return Cursor{}, fmt.Errorf("%w: state %v of a list, must be pending, running, done, dead or removed", timeout.ErrArgument, query.State)
	}
	return ParseCursor(query.Cursor)
}

// Entry is a task in the order of time.
type Entry struct {
	At      int64
	ID      string
	Version int64
	State   timeout.State
	Slot    int
}

// Compare orders entries by time, then by id.
func (e Entry) Compare(other Entry) int {
	return cmp.Or(cmp.Compare(e.At, other.At), strings.Compare(e.ID, other.ID))
}

// Merge makes a page of parts, each of which has been read in order up to part entries: what
// comes behind the end of a part that is full is not known. It returns the page's end, empty
// where that is all there is.
func Merge(parts [][]Entry, part, limit int) (page []Entry, next string) {
	more := false
	var ends []Entry
	for _, p := range parts {
		page = append(page, p...)
		if len(p) >= part {
			ends = append(ends, p[len(p)-1])
		}
	}
	slices.SortFunc(page, Entry.Compare)
	for _, end := range ends {
		at, _ := slices.BinarySearchFunc(page, end, Entry.Compare)
		page, more = page[:min(at+1, len(page))], true
	}
	if len(page) > limit {
		page, more = page[:limit], true
	}
	if more && len(page) > 0 {
		last := page[len(page)-1]
		next = Cursor{last.At, last.ID}.String()
	}
	return page, next
}

// Share is how many entries each of n parts is asked for, where limit are wanted.
func Share(limit, n int) int {
	if n <= 1 {
		return limit
	}
	return min(limit, max((limit+n-1)/n, 16))
}

// Wanted returns what Truth.Upcoming has of entries.
func Wanted(entries []Entry) []timeout.Wanted {
	wanted := make([]timeout.Wanted, len(entries))
	for i, entry := range entries {
		wanted[i] = timeout.Wanted{ID: entry.ID, Version: entry.Version, At: Time(entry.At)}
	}
	return wanted
}
