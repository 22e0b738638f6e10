package timeout_test

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/logtest"
	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
)

const duplicates = "another running node has this node's name"

func TestTwoNodesOfOneNameAreTold(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		e, err := memory.New(memory.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = e.Close() })
		var logs [2]logtest.Log
		var centers [2]*rig
		for i := range centers {
			centers[i] = rigOn(t, e, timeout.Config{Node: "a", Logger: logs[i].Logger(slog.LevelInfo)})
			pass(time.Second)
		}
		pass(10 * time.Second)
		for i := range logs {
			lines := logs[i].Lines(duplicates)
			require.Len(t, lines, 1)
			for _, part := range []string{"level=ERROR", "node=a", "for=", "-node"} {
				require.Contains(t, lines[0], part)
			}
			require.NotEmpty(t, centers[i].View().Other)
		}
		pass(10 * time.Minute)
		for i := range logs {
			require.InDelta(t, 11, len(logs[i].Lines(duplicates)), 1, "a line each minute")
			require.NotEmpty(t, centers[i].View().Other)
		}
		require.NoError(t, centers[1].stop())
		pass(time.Minute)
		require.Empty(t, centers[0].View().Other)
		require.Len(t, logs[0].Lines("no other node"), 1)
		before := len(logs[0].Lines(duplicates))
		pass(time.Hour)
		require.Len(t, logs[0].Lines(duplicates), before)
	})
}

// A node is killed, and its successor of the same name starts at once. It is found in the record of
// the killed one, and so are a stop and another Run.
func TestARestartUnderTheSameNameIsNoDuplicate(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		e, err := memory.New(memory.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = e.Close() })
		_, err = e.Heartbeat(t.Context(), engine.Node{Name: "a", Run: "killed"}, 10*time.Second)
		require.NoError(t, err)
		pass(3 * time.Second)
		var log logtest.Log
		for range 3 {
			r := rigOn(t, e, timeout.Config{Node: "a", Logger: log.Logger(slog.LevelInfo)})
			for range 60 {
				pass(time.Second)
				require.Empty(t, r.View().Other)
				require.True(t, slices.ContainsFunc(r.View().Nodes, func(n engine.Node) bool { return n.Name == "a" }))
			}
			require.NoError(t, r.stop())
		}
		require.Empty(t, log.Lines(duplicates))
	})
}
