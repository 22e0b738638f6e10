package engine_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

func TestOnlyRunningTasksThatHaveChangedHaveEndedLeases(t *testing.T) {
	tasks := []engine.Task{
		{Topic: "t", ID: "running"}, {Topic: "t", ID: "kept", IfAbsent: true}, {Topic: "t", ID: "pending"}, {Topic: "t", ID: "refused"},
	}
	answers := []engine.Answer{
		{Was: engine.Running, Version: 2}, {Was: engine.Running, Version: 1}, {Was: engine.Pending, Version: 3}, {Err: engine.ErrNotFound},
	}
	require.Equal(t, []engine.Key{{Topic: "t", ID: "running"}}, engine.EndedBySet(tasks, answers))
	var removals []engine.Removal
	for _, task := range tasks {
		removals = append(removals, engine.Removal{Key: task.Key()})
	}
	answers[0].Version = 0
	require.Equal(t, []engine.Key{{Topic: "t", ID: "running"}}, engine.EndedByRemoval(removals, answers))
	require.Empty(t, engine.EndedBySet(nil, nil))
}

func TestManyEndedLeasesOfATopicAreNotToldOneByOne(t *testing.T) {
	var removals []engine.Removal
	for i := range 300 {
		removals = append(removals, engine.Removal{Key: engine.Key{Topic: "t", ID: fmt.Sprint(i)}})
	}
	removals[200].Topic = "u"
	answers := make([]engine.Answer, len(removals))
	for i := range answers {
		answers[i].Was = engine.Running
	}
	ended := engine.EndedByRemoval(removals, answers)
	require.Len(t, ended, 66)
	require.Contains(t, ended, engine.Key{Topic: "t"})
	require.Contains(t, ended, engine.Key{Topic: "u", ID: "200"})
}
