package engine

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Topic holds the settings of the tasks of one name. An engine keeps it for all nodes. The zero
// value of each field but Name means the default.
type Topic struct {
	Name string `json:"name"`

	// Slots is the number of parts of the topic: a power of two, at most MaxSlots. Different
	// nodes serve different slots, and in Redis Cluster different servers keep those that the topic was made with. The
	// number can grow while everything runs, but not shrink. Zero means the number that the topic has.
	// For a new one it means 8, or fewer if GlobalConcurrency is less.
	Slots int `json:"slots"`

	// Retries is how many times a task is tried again after the first attempt before it is
	// dead. Zero means 16; negative means never; more than MaxRetries is an error.
	Retries int `json:"retries,omitempty"`

	// Backoff is the wait before the first retry. Each wait is twice the one before, at most
	// BackoffMax, and then shortened by a random part of up to a half. Zero means 1s and 10m.
	// No duration of a topic may be longer than MaxDuration.
	Backoff    time.Duration `json:"backoff,omitempty"`
	BackoffMax time.Duration `json:"backoff_max,omitempty"`

	// Lease is how long a task belongs to a node before another node may run it. The center
	// extends it as long as the handler runs and the node lives. Zero means 30s; less than
	// 100ms is an error.
	Lease time.Duration `json:"lease,omitempty"`

	// Timeout is how long a handler may take. Then its context ends, and if the handler returns
	// an error the attempt has failed. Zero means an hour, or Lease if that is longer. Negative
	// means for ever: then a hanging handler keeps its place and its task until the process
	// ends.
	Timeout time.Duration `json:"timeout,omitempty"`

	// Concurrency is how many tasks of the topic a node runs at the same time. Zero means 64;
	// more than MaxConcurrency is an error. Tasks with callbacks of their own to one target get
	// at most half of that.
	Concurrency int `json:"concurrency,omitempty"`

	// Priority is the topic's share of a node's places, beside those of other topics, while more tasks are
	// due than timeout.Config.Concurrency lets run: a topic with 6 gets twice as much as one with
	// 3. Zero means 1; more than MaxPriority is an error.
	Priority int `json:"priority,omitempty"`

	// Rate is how many tasks of the topic a node begins in a second. Zero means any number;
	// less than MinRate or more than MaxRate is an error.
	Rate float64 `json:"rate,omitempty"`

	// GlobalConcurrency is how many tasks of the topic all nodes together run at the same time. Each
	// slot gets an equal part, and a node has the parts of its slots. So it must be at least Slots.
	// A node begins nothing if its last heartbeat that succeeded began more than a TTL ago (timeout.Config.TTL).
	// A node that joins others begins after a TTL. When a node has left or is silent for a TTL, tasks begun by it go on
	// beside those of the new owners of its slots. So for the length of a task there can be twice as many. A process
	// that is paused between the check of its heartbeat and the call takes one batch too many. Zero means no such
	// limit; more than MaxGlobalConcurrency is an error.
	GlobalConcurrency int `json:"global_concurrency,omitempty"`

	// GlobalRate is how many tasks of the topic all nodes together begin in a second, dealt like
	// GlobalConcurrency. A node that has begun none for a while may begin the tasks of a tenth of a
	// second, or one, at once. Zero means no such limit; else it is from MinRate to MaxRate.
	GlobalRate float64 `json:"global_rate,omitempty"`

	// Every makes the tasks of the topic periodic: after each run a task waits for the next one. It is
	// an interval from MinEvery to MaxDuration, such as "10m" or "1d", or a cron expression of five fields,
	// or @hourly and the like. A day of the month can be L for the last one, L-3 for the third before that, or LW for the last
	// weekday. 15W is the weekday nearest to the 15th in its month. A day of the week can be FRI#2 for the second
	// Friday of the month. 5L and FRI#L are the last one. A cron expression is in UTC, unless a zone stands before it:
	// "CRON_TZ=Europe/Berlin 30 2 * * *". The zone Local is an error, since each node may have another one. An interval counts from Task.Due, so it doesn't drift. Times
	// that pass while a task runs or no node does are skipped. If the clocks of the zone skip a time, the run
	// comes later by the step. A time that they show twice counts once, unless all hours are meant.
	// A run without an attempt left, or whose retry would not come before the next run, is given
	// up: Stats.Dead counts it, and the task keeps the error until its next attempt has ended. An
	// error of timeout.Permanent ends the task, and so does its removal. timeout.Again goes
	// before Every. Empty means that each task runs once. See timeout.Again for what stays, and
	// timeout.Center.ChangeTopic for what becomes of waiting tasks if Every changes.
	Every string `json:"every,omitempty"`

	// Retain is how long done and removed tasks are kept for inspection. Zero means not at all.
	Retain time.Duration `json:"retain,omitempty"`

	// RetainDead is how long dead tasks are kept. Zero means 30 days.
	RetainDead time.Duration `json:"retain_dead,omitempty"`

	// MaxDead is about how many dead tasks are kept. Beyond it the oldest are deleted. Zero
	// means 100,000; negative means any number.
	MaxDead int `json:"max_dead,omitempty"`

	// RetainLog is how long the log of executions is kept while its task exists. The log of a
	// deleted task goes with it. Zero means 7 days, or Retain if that is longer.
	RetainLog time.Duration `json:"retain_log,omitempty"`

	// Callback is called for tasks without one of their own if the node has no handler for the
	// topic. With it a topic can be served without a restart.
	Callback *Callback `json:"callback,omitempty"`

	// Pull leaves the tasks to programs that ask for them: see timeout.Center.Pull. A node runs
	// them only if it has a handler for the topic. Callback must be nil, and nobody makes the
	// callbacks of single tasks. GlobalConcurrency and GlobalRate must be zero.
	Pull bool `json:"pull,omitempty"`

	// Paused topics accept tasks and run none: Lease only settles leases. SetTopic and ChangeTopic heed this and the next field
	// in a new topic only: Pause, Resume and ChangeTopicIf change those of an existing one.
	Paused bool `json:"paused,omitempty"`

	// PausedUntil is when the pause of a Paused topic ends by itself, by the engine's clock, in whole milliseconds. Then
	// both fields are zero. Zero means that somebody has to resume the topic.
	PausedUntil time.Time `json:"paused_until,omitzero"`
}

// The defaults of a Topic.
const (
	DefaultSlots       = 8
	DefaultRetries     = 16
	DefaultBackoff     = time.Second
	DefaultBackoffMax  = 10 * time.Minute
	DefaultLease       = 30 * time.Second
	DefaultConcurrency = 64
	DefaultTimeout     = time.Hour
	DefaultRetainDead  = 30 * 24 * time.Hour
	DefaultMaxDead     = 100_000
	DefaultRetainLog   = 7 * 24 * time.Hour
)

// MinLease is the shortest lease to ask for. Topic.Timeout may leave less of one.
const MinLease = 100 * time.Millisecond

// The limits of a Topic. What engines, workers and waits reckon with stays far from the ends
// of an int32 and of a time.Duration.
const (
	MaxRetries     = 1_000_000
	MaxConcurrency = 1 << 16

	MaxGlobalConcurrency = 1 << 20
	MaxPriority          = 1000

	MinRate     = 1e-6 // one in twelve days
	MaxRate     = 1e6
	MaxDuration = 100 * 365 * 24 * time.Hour
)

// WithDefaults returns the topic with defaults in place of zero fields. The others stay: their
// zero has a meaning.
func (t Topic) WithDefaults() Topic {
	if t.Slots == 0 {
		t.Slots = DefaultSlots
		for t.GlobalConcurrency > 0 && t.Slots > t.GlobalConcurrency {
			t.Slots /= 2
		}
	}
	t.Retries = cmp.Or(t.Retries, DefaultRetries)
	t.Backoff = cmp.Or(t.Backoff, DefaultBackoff)
	t.BackoffMax = cmp.Or(t.BackoffMax, max(DefaultBackoffMax, t.Backoff))
	t.Lease = cmp.Or(t.Lease, DefaultLease)
	t.Concurrency = cmp.Or(t.Concurrency, DefaultConcurrency)
	t.RetainDead = cmp.Or(t.RetainDead, DefaultRetainDead)
	t.MaxDead = cmp.Or(t.MaxDead, DefaultMaxDead)
	t.RetainLog = cmp.Or(t.RetainLog, max(DefaultRetainLog, t.Retain))
	return t
}

// Clone returns a copy that shares nothing with t. It is for engines in memory.
func (t Topic) Clone() Topic {
	t.Callback = t.Callback.Clone()
	return t
}

// At returns the topic at a moment, in milliseconds since the epoch: without a pause that has ended. It is for engines.
func (t Topic) At(now int64) Topic {
	if t.PausedUntil.IsZero() {
		return t
	}
	until := Millis(t.PausedUntil)
	if t.PausedUntil = time.UnixMilli(until).UTC(); until <= now || !t.Paused {
		t.Paused, t.PausedUntil = false, time.Time{}
	}
	return t
}

// In returns the topic as it is kept in place of an earlier one, which has no name if there is none, and whether that is a
// change. It is SetTopic with the same onlyNew and was, at now in milliseconds. The error wraps ErrConflict or ErrArgument. It
// is for engines.
func (t Topic) In(place Topic, now int64, onlyNew bool, was ...Topic) (kept Topic, changes bool, err error) {
	place = place.At(now)
	if onlyNew && place.Name != "" {
		return place, false, nil
	}
	if t.Slots = cmp.Or(t.Slots, place.Slots); len(was) == 0 && place.Name != "" {
		t.Paused, t.PausedUntil = place.Paused, place.PausedUntil
	}
	kept = t.WithDefaults().At(now)
	switch {
	case len(was) > 0 && !was[0].equal(place):
		return place, false, fmt.Errorf("%w: topic %s is not as it was: read it again", ErrChanged, t.Name)
	case t.Slots < place.Slots:
		return place, false, fmt.Errorf("%w: Slots %d of topic %s, must be at least %d, which it has", ErrConflict, t.Slots, t.Name, place.Slots)
	}
	if err := t.checkSlots(); err != nil {
		return place, false, err
	}
	return kept, true, nil
}

// equal compares two topics as they are kept. Those without a name are equal.
func (t Topic) equal(other Topic) bool {
	if t.Name == "" || other.Name == "" {
		return t.Name == other.Name
	}
	a, err := json.Marshal(t.At(0)) // times are in one zone then
	b, _ := json.Marshal(other.At(0))
	return err == nil && bytes.Equal(a, b)
}

// Asked returns the existing ones of the slots of an Ask, in order and each once. Nil means all. It is
// for engines.
func (t Topic) Asked(slots []int) []int {
	if slots == nil {
		slots = make([]int, t.Slots)
		for i := range slots {
			slots[i] = i
		}
		return slots
	}
	slots = slices.Clone(slots)
	slices.Sort(slots)
	return slices.DeleteFunc(slices.Compact(slots), func(slot int) bool { return slot < 0 || slot >= t.Slots })
}

// Check returns an error wrapping ErrArgument if the topic is invalid.
func (t Topic) Check() error {
	if err := CheckTopic(t.Name); err != nil {
		return err
	}
	if t.Slots < 0 || t.Slots > MaxSlots || t.Slots&(t.Slots-1) != 0 {
		return fmt.Errorf("%w: Slots %d of topic %s, must be a power of two of at most %d", ErrArgument, t.Slots, t.Name, MaxSlots)
	}
	if t.Lease != 0 && t.Lease < MinLease {
		return fmt.Errorf("%w: Lease %v of topic %s, must be at least %v", ErrArgument, t.Lease, t.Name, MinLease)
	}
	if t.Retries > MaxRetries {
		return fmt.Errorf("%w: Retries %d of topic %s, must be at most %d", ErrArgument, t.Retries, t.Name, MaxRetries)
	}
	if t.Concurrency < 0 || t.Concurrency > MaxConcurrency {
		return fmt.Errorf("%w: Concurrency %d of topic %s, must be 0 to %d", ErrArgument, t.Concurrency, t.Name, MaxConcurrency)
	}
	if t.Priority < 0 || t.Priority > MaxPriority {
		return fmt.Errorf("%w: Priority %d of topic %s, must be 0 to %d", ErrArgument, t.Priority, t.Name, MaxPriority)
	}
	if t.GlobalConcurrency < 0 || t.GlobalConcurrency > MaxGlobalConcurrency {
		return fmt.Errorf("%w: GlobalConcurrency %d of topic %s, must be 0 to %d", ErrArgument, t.GlobalConcurrency, t.Name, MaxGlobalConcurrency)
	}
	if err := t.checkSlots(); err != nil {
		return err
	}
	for _, field := range []struct {
		name string
		rate float64
	}{{"Rate", t.Rate}, {"GlobalRate", t.GlobalRate}} {
		if r := field.rate; r != 0 && !(r >= MinRate && r <= MaxRate) { // a NaN is refused, too
			return fmt.Errorf("%w: %s %v of topic %s, must be 0, or from %v to %v", ErrArgument, field.name, r, t.Name, MinRate, MaxRate)
		}
	}
	if err := t.checkDurations(); err != nil {
		return err
	}
	if t.Every != "" {
		_, err := ParseSchedule(t.Every)
		if err == nil {
			err = checkZone(t.Every)
		}
		if err != nil {
			return fmt.Errorf("%w (topic %s)", err, t.Name)
		}
	}
	if t.Pull && (t.GlobalConcurrency != 0 || t.GlobalRate != 0) { // any node leases from all slots
		return fmt.Errorf("%w: Pull of topic %s together with GlobalConcurrency %d and GlobalRate %v, must be without them", ErrArgument, t.Name, t.GlobalConcurrency, t.GlobalRate)
	}
	if err := CheckDue(t.PausedUntil); err != nil {
		return fmt.Errorf("PausedUntil of topic %s: %w", t.Name, err)
	}
	if !t.PausedUntil.IsZero() && !t.Paused {
		return fmt.Errorf("%w: PausedUntil %v of topic %s without Paused, must be with it", ErrArgument, t.PausedUntil, t.Name)
	}
	if t.Callback == nil {
		return nil
	}
	if t.Pull {
		return fmt.Errorf("%w: Pull of topic %s together with a callback of kind %s, must be one of them", ErrArgument, t.Name, t.Callback.Kind)
	}
	return t.Callback.Check()
}

// checkSlots returns an error if a slot would have no part of GlobalConcurrency.
func (t Topic) checkSlots() error {
	if t.GlobalConcurrency != 0 && t.GlobalConcurrency < t.Slots {
		return fmt.Errorf("%w: GlobalConcurrency %d of topic %s, must be 0 or at least the number of its slots, %d", ErrArgument, t.GlobalConcurrency, t.Name, t.Slots)
	}
	return nil
}

func (t Topic) checkDurations() error {
	if err := checkDurations("topic "+t.Name, duration{"Backoff", t.Backoff}, duration{"BackoffMax", t.BackoffMax}, duration{"Lease", t.Lease}, duration{"Timeout", t.Timeout},
		duration{"Retain", t.Retain}, duration{"RetainDead", t.RetainDead}, duration{"RetainLog", t.RetainLog}); err != nil {
		return err
	}
	if d := t.WithDefaults(); d.Backoff > d.BackoffMax {
		return fmt.Errorf("%w: Backoff %v of topic %s, must be at most BackoffMax %v", ErrArgument, d.Backoff, t.Name, d.BackoffMax)
	}
	return nil
}

// duration is a setting of a topic or a task.
type duration struct {
	name  string
	value time.Duration
}

func checkDurations(owner string, durations ...duration) error {
	for _, d := range durations {
		if d.value < 0 && d.name != "Timeout" {
			return fmt.Errorf("%w: %s %v of %s, must not be negative", ErrArgument, d.name, d.value, owner)
		}
		if d.value > MaxDuration {
			return fmt.Errorf("%w: %s %v of %s, must be at most %v", ErrArgument, d.name, d.value, owner, MaxDuration)
		}
	}
	return nil
}

// Counts are the numbers of tasks of a topic by state, at one moment.
type Counts struct {
	Pending int64 `json:"pending"`
	Running int64 `json:"running"`
	Done    int64 `json:"done"`
	Dead    int64 `json:"dead"`
	Removed int64 `json:"removed"`

	// Due counts the Pending tasks that are due. Lag is how long the first of them has been
	// due.
	Due int64         `json:"due"`
	Lag time.Duration `json:"lag"`
}

// Add adds n tasks of a state. Engines count with it.
func (c *Counts) Add(state State, n int64) {
	switch state {
	case Pending:
		c.Pending += n
	case Running:
		c.Running += n
	case Done:
		c.Done += n
	case Dead:
		c.Dead += n
	case Removed:
		c.Removed += n
	}
}
