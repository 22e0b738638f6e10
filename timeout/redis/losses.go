package redis

import (
	"fmt"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// losses are the errors of the tasks of a batch that got no answer, by their places.
type losses map[int]error

func (ls *losses) add(tasks []int, err error) {
	if *ls == nil && len(tasks) > 0 {
		*ls = make(losses)
	}
	for _, i := range tasks {
		(*ls)[i] = err
	}
}

// tell returns the answers of a verb, with the errors of those that were lost. Where nothing else is
// known of any, that is an error of the call.
func tell(answers []engine.Answer, lost losses) ([]engine.Answer, error) {
	if len(lost) > 0 && len(lost) == len(answers) {
		return nil, lost[0]
	}
	for i, err := range lost {
		answers[i] = engine.Answer{Err: err}
	}
	return answers, nil
}

// tellPartly is tell for what has no place for an error.
func tellPartly[A any](answers []A, lost losses) ([]A, error) {
	if len(lost) > 0 && len(lost) == len(answers) {
		return nil, lost[0]
	}
	for _, err := range lost {
		return answers, fmt.Errorf("%w: %w", engine.ErrPartial, err)
	}
	return answers, nil
}
