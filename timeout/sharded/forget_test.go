package sharded

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
)

func TestATopicThatAnotherProcessHasDroppedIsForgotten(t *testing.T) {
	shard, err := memory.New(memory.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, shard.Close()) })
	open := func(context.Context) (engine.Engine, error) { return shard, nil }
	e, err := start(t.Context(), []func(context.Context) (engine.Engine, error){open}, false, false, Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	for _, name := range []string{"kept", "dropped"} {
		_, err := e.SetTopic(t.Context(), engine.Topic{Name: name, Slots: 4}, false)
		require.NoError(t, err)
	}
	require.NoError(t, shard.DropTopic(t.Context(), "dropped"))
	_, err = e.Topics(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]int{"kept": 4}, e.(*core).slots)
}
