package redis

import (
	"fmt"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// losses are the errors of the tasks without an answer, by their indices in the batch.
type losses map[int]error

func (ls *losses) add(tasks []int, err error) {
	if *ls == nil && len(tasks) > 0 {
		*ls = make(losses)
	}
	for _, i := range tasks {
		(*ls)[i] = err
	}
}

// tell returns the answers of a verb, with the errors of the lost ones. If all are lost, the call has
// an error.
func tell(answers []engine.Answer, lost losses) ([]engine.Answer, error) {
	if len(lost) > 0 && len(lost) == len(answers) {
		return nil, lost[0]
	}
	for i, err := range lost {
		answers[i] = engine.Answer{Err: err}
	}
	return answers, nil
}

// tellPartly is tell for answers without a place for an error.
func tellPartly[A any](answers []A, lost losses) ([]A, error) {
	if len(lost) > 0 && len(lost) == len(answers) {
		return nil, lost[0]
	}
	for _, err := range lost {
		return answers, fmt.Errorf("%w: %w", engine.ErrPartial, err)
	}
	return answers, nil
}
