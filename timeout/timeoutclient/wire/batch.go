package wire

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
