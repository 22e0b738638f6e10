package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
)

func TestWithSeveralNodesItIsSaidWhatIsOfOne(t *testing.T) {
	for nodes, said := range map[int]bool{0: false, 1: false, 3: true} {
		var out strings.Builder
		require.NoError(t, draw(&out, wire.Stats{Members: wire.Members{Nodes: make([]engine.Node, nodes)}}, nil))
		require.Equal(t, said, strings.Contains(out.String(), "of this node alone"), "%d nodes", nodes)
	}
	out := new(strings.Builder)
	require.NoError(t, draw(out, wire.Stats{Sums: wire.Sums{Asked: true, Nodes: make([]wire.Summed, 2), Missing: []string{"c"}}}, nil))
	require.Contains(t, out.String(), "DONE to LATE P99 are of 2 of 3 nodes, without c\n")
}
