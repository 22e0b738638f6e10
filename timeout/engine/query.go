package engine

import "fmt"

// Query selects tasks for List.
type Query struct {
	Topic string
	State State // one of Pending, Running, Done, Dead and Removed

	// Limit is the greatest number of tasks on the page. Zero means 100; more than MaxPage is
	// an error.
	Limit int

	// Cursor is the Next of the page before, or empty for the first page. Another text is ErrArgument.
	Cursor string

	// Metadata limits the list of a center to the tasks that have all of it, see Options.Metadata. Engines take no notice of
	// it: the center reads the whole list, for a second at a time.
	Metadata map[string]string

	// OmitPayload leaves the payloads out: each task has PayloadBytes in place of Payload. The engine sends
	// no payloads, and reads none if its store allows that. So MaxPageBytes does not count.
	OmitPayload bool
}

// Check returns an error wrapping ErrArgument if the query is invalid. The engine checks the cursor.
func (q Query) Check() error {
	if err := CheckTopic(q.Topic); err != nil {
		return err
	}
	if q.State == None || q.State > Removed {
		return fmt.Errorf("%w: state %v of a list, must be pending, running, done, dead or removed", ErrArgument, q.State)
	}
	if q.Limit < 0 || q.Limit > MaxPage {
		return fmt.Errorf("%w: Limit %d of a list, must be 0 to %d", ErrArgument, q.Limit, MaxPage)
	}
	return CheckMetadata(q.Metadata)
}

const (
	// MaxPage is the greatest number of tasks on a page.
	MaxPage = 1000

	// MaxPull is the greatest number of tasks that one Pull of a center leases.
	MaxPull = 100

	// MaxPageBytes bounds the payloads on a page, in bytes. A page of large tasks has fewer of
	// them than Limit, and at least one.
	MaxPageBytes = 4 << 20
)

// Page is a part of a list, in the order of Task.Until. A task that stays in its place throughout is on
// exactly one page, whatever happens to others meanwhile. A page with a Next can have fewer tasks than
// Query.Limit, or none.
type Page struct {
	Tasks []Task `json:"tasks"`
	Next  string `json:"next,omitempty"` // empty on the last page
}
