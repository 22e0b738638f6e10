package fleet

import "github.com/heartwheel-go/heartwheel/loadtest/internal/latency"

// Report is what a run has found of a fleet. Its JSON form is a part of the load test's.
type Report struct {
	Nodes             int            `json:"nodes"`
	Sessions          int            `json:"sessions"` // when all were there, by the clients' count
	LeaseS            float64        `json:"lease_s"`
	RenewS            float64        `json:"renew_s"`
	NodeLeaseS        float64        `json:"node_lease_s"`        // 0 is none
	RenewalsPerSecond float64        `json:"renewals_per_second"` // in the steady phase
	ByNode            []NodeReport   `json:"by_node"`
	Redis             *RedisReport   `json:"redis"`  // null for somebody else's
	Prefix            string         `json:"prefix"` // of the keys left in that
	Offlines          OfflineReport  `json:"offlines"`
	Kill              *KillReport    `json:"kill,omitempty"`
	Rolling           *RollingReport `json:"rolling,omitempty"`
	Byes              map[string]int `json:"byes"`            // by reason of a node's goodbye
	NotBack           int            `json:"not_back"`        // clients without a node at the end
	Attempts          int            `json:"failed_attempts"` // of clients to find a node

	// The counts of the nodes.
	Refused  int64 `json:"refused"`
	Lost     int64 `json:"lost_leases"`
	Held     int64 `json:"held"`
	Failures int64 `json:"failed_calls"`

	cfg       Config
	ledger    *ledger
	findings  *findings
	died      []string // the nodes that have ended by themselves, and how
	deviating []string // nodes whose sessions differ from their clients'
	renewals  int64    // in the steady phase
	expected  int64    // of them, at least
	failure   error    // of the first failed attempt to find a node
	strange   int      // lines of gateways without meaning
	example   string   // of one
}

// NodeReport is one of the first nodes: its sessions when all were there, and its work in the steady
// phase.
type NodeReport struct {
	Name              string  `json:"name"`
	Sessions          int     `json:"sessions"`      // by its clients' count
	SaysSessions      int     `json:"says_sessions"` // by its own last count in the steady phase
	RenewalsPerSecond float64 `json:"renewals_per_second"`
	Cores             float64 `json:"cores"`
	RSSBytes          int64   `json:"rss_bytes"`
}

// RedisReport is the usage of Redis.
type RedisReport struct {
	SteadyCores float64 `json:"steady_cores"`
	AfterCores  float64 `json:"after_cores"` // from the kill or the first restart on
	RSSBytes    int64   `json:"rss_bytes"`   // in the steady phase
}

// OfflineReport is the told ends of sessions.
type OfflineReport struct {
	Told         int            `json:"told"`
	Reasons      map[string]int `json:"reasons"`
	WrongLive    int            `json:"wrong_live"`    // with open connections
	WrongBack    int            `json:"wrong_back"`    // back already
	WrongDrained int            `json:"wrong_drained"` // on their way to another node
	Unknown      int            `json:"unknown"`       // with an epoch of nobody
	Unwelcome    int            `json:"unwelcome"`     // of registrations without a WELCOME
	Crossed      int            `json:"crossed"`       // told right after the return of their clients
	Crossable    int            `json:"crossable"`     // the limit of those
	CrossedMs    float64        `json:"crossed_ms"`    // the longest time after the return
	ToleranceMs  float64        `json:"tolerance_ms"`  // the limit of that
	Repeated     int            `json:"repeated"`
	SilentLost   int            `json:"silent_lost"` // not told after a node had closed their connections
}

// Wrong is the number of sessions wrongly told to be offline.
func (o OfflineReport) Wrong() int { return o.WrongLive + o.WrongBack + o.WrongDrained + o.Unknown }

// KillReport is the fate of the killed nodes' sessions.
type KillReport struct {
	Nodes        []string        `json:"nodes"`
	Sessions     int             `json:"sessions"`
	Stayed       int             `json:"stayed_away"`
	Back         int             `json:"back"`
	BackAfterEnd int             `json:"back_after_offline"`
	Told         int             `json:"told"`
	Lost         int             `json:"lost"`
	Late         int             `json:"late"`  // later than the limit
	Tardy        int             `json:"tardy"` // later than that and the margin
	LimitS       float64         `json:"limit_s"`
	MarginS      float64         `json:"margin_s"`
	DetectionMs  latency.Summary `json:"detection_ms"` // from the kill
	FirstMs      float64         `json:"first_ms"`
}

// RollingReport is the fate of the drained nodes' clients.
type RollingReport struct {
	Restarts int             `json:"restarts"`
	Resumed  int             `json:"resumed"` // elsewhere in time
	Moved    int             `json:"moved"`   // elsewhere before the node had left the session
	Anew     int             `json:"anew"`    // new to their node
	GapMs    latency.Summary `json:"gap_ms"`  // without a node
}
