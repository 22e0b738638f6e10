package wire

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Topic is engine.Topic.
type Topic struct {
	Name              string    `json:"name,omitempty"`
	Slots             int       `json:"slots,omitempty"`
	Retries           int       `json:"retries,omitempty"`
	Backoff           Duration  `json:"backoff,omitzero"`
	BackoffMax        Duration  `json:"backoff_max,omitzero"`
	Lease             Duration  `json:"lease,omitzero"`
	Timeout           Duration  `json:"timeout,omitzero"`
	Concurrency       int       `json:"concurrency,omitempty"`
	Priority          int       `json:"priority,omitempty"`
	Rate              float64   `json:"rate,omitempty"`
	GlobalConcurrency int       `json:"global_concurrency,omitempty"`
	GlobalRate        float64   `json:"global_rate,omitempty"`
	Every             string    `json:"every,omitempty"`
	Retain            Duration  `json:"retain,omitzero"`
	RetainDead        Duration  `json:"retain_dead,omitzero"`
	MaxDead           int       `json:"max_dead,omitempty"`
	RetainLog         Duration  `json:"retain_log,omitzero"`
	Callback          *Callback `json:"callback,omitempty"`
	Pull              bool      `json:"pull,omitempty"`
	Paused            bool      `json:"paused,omitempty"`
	PausedUntil       Instant   `json:"paused_until,omitzero"`
}

// TopicOf returns a topic as JSON.
func TopicOf(t engine.Topic) Topic {
	return Topic{
		Name: t.Name, Slots: t.Slots, Retries: t.Retries, Backoff: Duration(t.Backoff), BackoffMax: Duration(t.BackoffMax),
		Lease: Duration(t.Lease), Timeout: Duration(t.Timeout), Concurrency: t.Concurrency, Priority: t.Priority, Rate: t.Rate, Every: t.Every,
		GlobalConcurrency: t.GlobalConcurrency, GlobalRate: t.GlobalRate,
		Retain: Duration(t.Retain), RetainDead: Duration(t.RetainDead), MaxDead: t.MaxDead, RetainLog: Duration(t.RetainLog),
		Callback: CallbackOf(t.Callback), Pull: t.Pull, Paused: t.Paused, PausedUntil: Instant{t.PausedUntil},
	}
}

// Read returns the topic as a center takes it.
func (t Topic) Read() engine.Topic {
	return engine.Topic{
		Name: t.Name, Slots: t.Slots, Retries: t.Retries, Backoff: time.Duration(t.Backoff), BackoffMax: time.Duration(t.BackoffMax),
		Lease: time.Duration(t.Lease), Timeout: time.Duration(t.Timeout), Concurrency: t.Concurrency, Priority: t.Priority, Rate: t.Rate, Every: t.Every,
		GlobalConcurrency: t.GlobalConcurrency, GlobalRate: t.GlobalRate,
		Retain: time.Duration(t.Retain), RetainDead: time.Duration(t.RetainDead), MaxDead: t.MaxDead, RetainLog: time.Duration(t.RetainLog),
		Callback: t.Callback.Read(), Pull: t.Pull, Paused: t.Paused, PausedUntil: t.PausedUntil.Time,
	}
}

// ETag returns the entity tag of a topic. The numbers of its tasks don't count.
func (t Topic) ETag() string {
	text, _ := json.Marshal(t)
	sum := sha256.Sum256(text)
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
}

// Pause is when a pause ends: at Until, or after For, or with neither of them by a resume.
type Pause struct {
	Until Instant   `json:"until,omitzero"`
	For   *Duration `json:"for,omitempty"`
}

// End returns when a pause ends that begins now. The error wraps engine.ErrArgument.
func (p Pause) End(now time.Time) (time.Time, error) {
	switch {
	case p.For == nil:
		return p.Until.Time, nil
	case !p.Until.IsZero():
		return time.Time{}, fmt.Errorf("%w: until %v and for %v, must be one of them", engine.ErrArgument, p.Until.Time, time.Duration(*p.For))
	case *p.For <= 0 || time.Duration(*p.For) > engine.MaxDuration:
		return time.Time{}, fmt.Errorf("%w: for %v of a pause, must be positive, and at most %v", engine.ErrArgument, time.Duration(*p.For), engine.MaxDuration)
	}
	return now.Add(time.Duration(*p.For) + time.Millisecond), nil // an engine's clock is rounded down, and no pause is too short
}

// Topics are all topics, by name.
type Topics struct {
	Topics []Topic `json:"topics"`
}

// TopicCounts is a topic with the number of its tasks.
type TopicCounts struct {
	Topic
	Counts Counts `json:"counts"`
}

// Counts is engine.Counts.
type Counts struct {
	Pending int64   `json:"pending"`
	Running int64   `json:"running"`
	Done    int64   `json:"done"`
	Dead    int64   `json:"dead"`
	Removed int64   `json:"removed"`
	Due     int64   `json:"due"`
	Lag     float64 `json:"lag_seconds"`
}

// CountsOf returns counts as JSON.
func CountsOf(c engine.Counts) Counts {
	return Counts{c.Pending, c.Running, c.Done, c.Dead, c.Removed, c.Due, c.Lag.Seconds()}
}

// TopicChange is the answer to a PUT or a PATCH: the topic, and what became of its tasks.
type TopicChange struct {
	Topic
	Rescheduled int    `json:"rescheduled,omitempty"` // waiting tasks with another time by a new Every
	Hint        string `json:"hint,omitempty"`        // what a PUT has taken from the topic by not naming it
}

// Read returns the counts.
func (c Counts) Read() engine.Counts {
	return engine.Counts{
		Pending: c.Pending, Running: c.Running, Done: c.Done, Dead: c.Dead, Removed: c.Removed,
		Due: c.Due, Lag: time.Duration(c.Lag * float64(time.Second)),
	}
}
