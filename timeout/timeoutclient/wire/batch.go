package wire

import (
	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Keys is a batch of keys.
type Keys struct {
	Keys []engine.Key `json:"keys"`
}

// Removals is a batch to be removed. A removal may be limited to a state or a version.
type Removals struct {
	Keys []engine.Removal `json:"keys"`
}

// Settings is a batch to be set.
type Settings struct {
	Tasks []KeyedSetting `json:"tasks"`
}

// Moves is a batch to be moved.
type Moves struct {
	Moves []KeyedMove `json:"moves"`
}

// Tasks is a page of a list, or the tasks of a batch.
type Tasks struct {
	Tasks []Task `json:"tasks"`
	Next  string `json:"next,omitempty"`
}

// Answers are the answers to a batch, in its order.
type Answers struct {
	Answers []Answer `json:"answers"`
}

// Executions are the finished attempts of a task, the latest first.
type Executions struct {
	Executions []Execution `json:"executions"`
}
