package debughttp

import "time"

// Snapshot has the figures of the page and the JSON at one moment. The names of its fields in
// JSON stay as they are, with their units; later versions may have more fields. Counters count
// from the start of the Keeper.
type Snapshot struct {
	Name    string    `json:"name"`
	At      time.Time `json:"at"`
	Started time.Time `json:"started_at"`     // when the Handler was made
	Uptime  float64   `json:"uptime_seconds"` // since then: what rates are computed with

	AddrsHidden bool `json:"addrs_hidden"` // see Config.HideAddrs

	Connections Connections `json:"connections"`
	Draining    bool        `json:"draining"`           // new connections are refused
	Reduction   float64     `json:"pressure_reduction"` // of timeouts, by pressure: 0 not, 1 as much as can be
	Wheel       Wheel       `json:"wheel"`
	Ages        Histogram   `json:"ages"`        // of connections, when they were closed
	RoundTrips  Histogram   `json:"round_trips"` // from a probe to its answer
	Advice      *Advice     `json:"advice"`      // null without keepalive's Config.Advise
	Streams     *Streams    `json:"streams"`     // null without Config.Streams
	Settings    Settings    `json:"settings"`

	Idlest   []Idle    `json:"idlest"` // the idlest first, at most 20
	IdlestAt time.Time `json:"idlest_at"`
	Recent   []End     `json:"recent"` // the last one first, at most 64
	Ended    uint64    `json:"ended"`  // how many connections have ended since the Handler was made

	Reasons []Reason `json:"reasons"` // all of them
}

// Connections is what happened to connections. The maps have each reason.
type Connections struct {
	Open       int               `json:"open"`
	Leaving    int               `json:"leaving"` // are being closed: last words are said
	Opened     uint64            `json:"opened"`
	Refused    Refused           `json:"refused"`
	Closed     map[string]uint64 `json:"closed"`
	WouldClose map[string]uint64 `json:"would_close"` // with DryRun
	Spared     uint64            `json:"spared"`      // not closed because the socket had heard of the peer
	Probes     uint64            `json:"probes"`      // sent
	Panics     uint64            `json:"panics"`      // panics of functions of the program
}

// Refused is how many connections were closed as they came.
type Refused struct {
	Full     uint64 `json:"full"`
	PerKey   uint64 `json:"per_key"`
	Draining uint64 `json:"drain"`
	PerUser  uint64 `json:"per_user"` // calls of Guard.SetKey
}

// Wheel is the wheel and what it has done.
type Wheel struct {
	Tick    float64 `json:"tick_seconds"`
	Levels  []Level `json:"levels"` // the finest first
	Pending int     `json:"pending"`
	Due     int     `json:"due"`
	Backlog int     `json:"backlog"` // due, and no worker has taken them up
	Added   uint64  `json:"added"`
	Expired uint64  `json:"expired"`
	Saved   uint64  `json:"saved"`   // touched when they were due already
	Refiled uint64  `json:"refiled"` // found touched by the hand, and filed again
	Panics  uint64  `json:"panics"`

	Late   Histogram `json:"late"`   // how much later than their tick timers expired
	Passes Histogram `json:"passes"` // how long the hand took, each time

	Stalls  uint64  `json:"stalls"` // times in which the process was stopped; they count in no timeout
	Stalled float64 `json:"stalled_seconds"`
}

// Level is one level of the wheel.
type Level struct {
	Span  float64 `json:"span_seconds"` // of a slot
	Hand  int     `json:"hand"`         // the slot last taken by the hand
	Slots []int   `json:"slots"`        // how many timers are filed in each
}

// Histogram counts durations. Buckets end with the last filled one.
type Histogram struct {
	Count   uint64   `json:"count"`
	Sum     float64  `json:"sum_seconds"`
	Max     float64  `json:"max_seconds"`
	P50     float64  `json:"p50_seconds"` // the limit of the median's bucket
	P99     float64  `json:"p99_seconds"`
	Buckets []Bucket `json:"buckets"`
}

// Bucket is how many durations were at most so long, and longer than the bucket before. The last
// possible bucket has no limit: null.
type Bucket struct {
	Limit *float64 `json:"le_seconds"`
	Count uint64   `json:"count"`
}

// Idle is a connection after a long silence.
type Idle struct {
	ID        uint64   `json:"id"`   // see Connection
	Addr      string   `json:"addr"` // "" if it is not known
	Idle      float64  `json:"idle_seconds"`
	Timeout   float64  `json:"timeout_seconds"`
	Age       float64  `json:"age_seconds"`
	Left      *float64 `json:"left_seconds"`       // until it is closed at the earliest; null is never, or not while it is held
	Ends      string   `json:"ends"`               // the reason of the end
	RoundTrip float64  `json:"round_trip_seconds"` // of its last answer to a probe, or 0
	Held      bool     `json:"held"`
}

// End is how a connection ended. Number counts the ends, from 1. By it a program tells new ends
// from known ones.
type End struct {
	ID     uint64    `json:"id"` // of the connection, see Connection
	Number uint64    `json:"number"`
	At     time.Time `json:"at"`
	Addr   string    `json:"addr"` // "" if it is not known
	Reason string    `json:"reason"`
	Age    float64   `json:"age_seconds"`
}

// Advice is what is known about the length of silences, see keepalive's Advice.
type Advice struct {
	Timeout    float64    `json:"timeout_seconds"`
	Silences   []Silences `json:"silences"`
	NearMisses uint64     `json:"near_misses"`
}

// Streams is what happened to event streams, see package ssekeepalive.
type Streams struct {
	Open     int    `json:"open"`
	Comments uint64 `json:"comments"` // sent
	Withheld uint64 `json:"withheld"` // comments that were due in the middle of an event
	Slow     uint64 `json:"slow"`     // ended for a slow reader
	Failed   uint64 `json:"failed"`   // with a comment that could not be written
}

// Silences is how many silences were at least so long.
type Silences struct {
	Share  float64 `json:"share"` // of the timeout
	Length float64 `json:"length_seconds"`
	Count  uint64  `json:"count"`
}

// Reason is why connections are closed.
type Reason struct {
	Name      string `json:"name"`
	Text      string `json:"text"`
	Retryable bool   `json:"retryable"`
}
