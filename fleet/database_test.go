package fleet

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
)

// Redis has one set of channels for all of its databases.
func TestFleetsInTwoDatabasesOfAServerDoNotHearEachOther(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	node := func(database, name string) *Node {
		n, err := Open(ctx, server.URL+"/"+database, quick("fleet", name))
		require.NoError(t, err)
		t.Cleanup(func() { n.Close() })
		return n
	}
	one, other, elsewhere := node("0", "node"), node("1", "node"), node("1", "elsewhere")
	here, c := register(t, one, "a")
	there, _ := register(t, other, "a")
	register(t, elsewhere, "a")
	eventually(t, func() bool { return there.Reason() == ReasonMoved }, "the session of the other database has moved")
	time.Sleep(100 * time.Millisecond)
	require.Zero(t, here.Reason())
	require.Zero(t, c.closed.Load())
}
