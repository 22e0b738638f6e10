package index

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheLoadsOfDroppedTopicsAreForgotten(t *testing.T) {
	var e Engine
	for _, name := range []string{"kept", "dropped", "dropped too"} {
		e.loads.Set(name, new(load))
	}
	e.forget(map[string]int{"kept": 2, "new": 1})
	require.Equal(t, 1, e.loads.Len())
	require.NotNil(t, e.loads.Get("kept"))
}
