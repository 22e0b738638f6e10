package wire

import (
	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Stats are the figures of a center. Each topic has the figures of this node in Here, and those of all
// nodes that have answered in All.
type Stats struct {
	At       Instant      `json:"at"`
	Since    Instant      `json:"since"`
	Node     string       `json:"node"`
	Engine   string       `json:"engine"`
	Members  Members      `json:"members"`
	Circuits []string     `json:"circuits"` // targets without calls from this node now, but for trials
	Unserved []string     `json:"unserved"` // topics with due tasks that no node can run, as far as this node knows
	Sums     Sums         `json:"sums"`
	Topics   []TopicStats `json:"topics"`

	// Error is why figures of the engine are missing.
	Error string `json:"error,omitempty"`
}

// Sums says what All of each topic is the sum of.
type Sums struct {
	At      Instant  `json:"at"`
	Nodes   []Summed `json:"nodes"`   // by name
	Missing []string `json:"missing"` // the members whose figures are not in the sums, by name
	Asked   bool     `json:"asked"`   // whether this node knows where to ask others
	Errors  []string `json:"errors"`  // of addresses without an answer
}

// Summed is a node whose figures are in the sums.
type Summed struct {
	Node  string  `json:"node"`
	Since Instant `json:"since"` // when its figures began
}

// NodeStats are the figures of one node, of the topics that it serves.
type NodeStats struct {
	Summed
	Topics map[string]Here `json:"topics"`
}

// Members is engine.View.
type Members struct {
	Node   string        `json:"node"`
	Leader string        `json:"leader"`
	Nodes  []engine.Node `json:"nodes"`
}

// TopicStats is a topic with its figures.
type TopicStats struct {
	Topic
	Counts *Counts  `json:"counts"` // null if the engine did not say
	Owners []string `json:"owners"` // of each slot; "" is nobody
	Here   *Here    `json:"here"`   // null if this node does not serve it
	All    *Here    `json:"all"`    // null if none of Sums.Nodes serves it
}

// Here is timeout.Stats.
type Here struct {
	Slots     []int     `json:"slots"`
	Queued    int       `json:"queued"`
	Running   int       `json:"running"`
	Waiting   int       `json:"waiting"`
	Done      uint64    `json:"done"`
	Failed    uint64    `json:"failed"`
	Dead      uint64    `json:"dead"`
	GivenUp   uint64    `json:"given_up"`
	Accepted  uint64    `json:"accepted"`
	Postponed uint64    `json:"postponed"`
	Returned  uint64    `json:"returned"`
	Rescued   uint64    `json:"rescued"`
	Pulled    uint64    `json:"pulled"`
	Purged    uint64    `json:"purged"`
	Abandoned uint64    `json:"abandoned"`
	Again     uint64    `json:"again"`
	Lost      uint64    `json:"lost"`
	Early     uint64    `json:"early"`
	Late      Histogram `json:"late"`
	Took      Histogram `json:"took"`
}

// Histogram counts durations. Buckets end with the last one that is not empty.
type Histogram struct {
	Count   uint64   `json:"count"`
	Sum     float64  `json:"sum_seconds"`
	Max     float64  `json:"max_seconds"`
	P50     float64  `json:"p50_seconds"` // the limit of the median's bucket
	P99     float64  `json:"p99_seconds"`
	Buckets []Bucket `json:"buckets"`
}

// Bucket counts durations up to its limit, and above the limit of the bucket before.
type Bucket struct {
	Limit float64 `json:"le_seconds"`
	Count uint64  `json:"count"`
}
