package index

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheLoadsOfDroppedTopicsAreForgotten(t *testing.T) {
	e := Engine{loads: make(map[string]*load)}
	for _, name := range []string{"kept", "dropped", "dropped too"} {
		e.loads[name] = new(load)
	}
	e.forget(map[string]int{"kept": 2, "new": 1})
	require.Len(t, e.loads, 1)
	require.NotNil(t, e.loads["kept"])
}
