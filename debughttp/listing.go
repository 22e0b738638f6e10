package debughttp

import "time"

// Listing is a page of the connections, as JSON. The names of its fields stay as they are, with
// their units; later versions may have more fields.
type Listing struct {
	Name   string    `json:"name"` // of the server
	At     time.Time `json:"at"`
	State  string    `json:"state"` // as asked for: open, closed, or a state of open connections
	Sort   string    `json:"sort"`
	Order  string    `json:"order"` // asc or desc
	Limit  int       `json:"limit"`
	Open   int       `json:"open"`   // connections in all
	Ended  uint64    `json:"ended"`  // connections ended since the Handler was made
	Kept   int       `json:"kept"`   // how many of their ends are kept
	Total  int       `json:"total"`  // connections in question, on all pages
	Before int       `json:"before"` // how many of those come before this page

	// Next and Previous are for the parameters after and before; "" at the end and at the
	// beginning.
	Next     string `json:"next"`
	Previous string `json:"previous"`

	Took        float64 `json:"took_seconds"`
	AddrsHidden bool    `json:"addrs_hidden"` // see Config.HideAddrs
	Labels      bool    `json:"labels"`       // see Config.Label
	CanClose    bool    `json:"can_close"`    // see Config.CloseToken

	Reasons []string `json:"reasons"` // all there are, for the parameter reason

	Connections []Connection `json:"connections"`
}

// Connection is a connection of a [Listing]. Null and "" are for unknown.
type Connection struct {
	ID       uint64    `json:"id"`    // no other connection of the Keeper ever has it
	Addr     string    `json:"addr"`  // of the peer
	Label    string    `json:"label"` // see Config.Label
	Key      string    `json:"key"`   // see keepalive.Guard.SetKey; a name in its place with Config.HideAddrs
	State    string    `json:"state"` // open, new, held, probing, leaving or closed
	OpenedAt time.Time `json:"opened_at"`
	Age      float64   `json:"age_seconds"`  // at the end, of a closed one
	Idle     float64   `json:"idle_seconds"` // the same

	// These are null for a closed connection, and if they are not known.
	Timeout   *float64   `json:"timeout_seconds"`
	Left      *float64   `json:"left_seconds"`       // until it is closed at the earliest; null is never, or not while it is held
	RoundTrip *float64   `json:"round_trip_seconds"` // of its last answer to a probe, or as the kernel estimates it
	Measured  string     `json:"round_trip_by"`      // probe or kernel
	Received  *uint64    `json:"received_bytes"`     // arrived
	Acked     *uint64    `json:"acknowledged_bytes"` // sent, and acknowledged by the peer
	ClosedAt  *time.Time `json:"closed_at"`

	// Reason is why it is closed if nothing more is heard, or why it was.
	Reason string `json:"reason"`
}
