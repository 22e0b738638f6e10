package wire

import (
	"cmp"
	"maps"
	"slices"
)

// Cleared is how many dead tasks were replayed or dropped. With More there are others: the same
// request with the cursor Next goes on with them.
type Cleared struct {
	Changed int64  `json:"changed"`
	More    bool   `json:"more"`
	Next    string `json:"next,omitempty"`
}

// Causes says why tasks are dead. If there is a Next, it is about the tasks up to there, and the
// same request with that cursor is about others.
type Causes struct {
	Causes []Cause `json:"causes"` // the most tasks first
	Other  int64   `json:"other"`  // tasks of more causes than an answer has
	Next   string  `json:"next,omitempty"`
}

// Cause is a group of dead tasks with the same kind of error at the same target.
type Cause struct {
	ID     string  `json:"cause"`
	Error  string  `json:"error"`            // what the errors have in common
	Target string  `json:"target,omitempty"` // what the targets have in common; empty for a handler
	Tasks  int64   `json:"tasks"`
	Newest Instant `json:"newest"`
	Sample Sample  `json:"example"`
}

// Sample is the task that has died last.
type Sample struct {
	ID    string `json:"id"`
	Error string `json:"error"`
}

// Groups are causes by ID.
type Groups map[string]Cause

// Add adds the tasks of a cause to its group.
func (g Groups) Add(c Cause) {
	if before, known := g[c.ID]; known {
		c.Tasks += before.Tasks
		if !c.Newest.After(before.Newest.Time) {
			c.Newest, c.Sample = before.Newest, before.Sample
		}
	}
	g[c.ID] = c
}

// Sorted returns the causes, those with the most tasks first.
func (g Groups) Sorted() []Cause {
	causes := slices.AppendSeq([]Cause{}, maps.Values(g)) // not null in JSON
	slices.SortFunc(causes, func(a, b Cause) int { return cmp.Or(cmp.Compare(b.Tasks, a.Tasks), cmp.Compare(a.ID, b.ID)) })
	return causes
}
