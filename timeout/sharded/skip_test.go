package sharded

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// A page is not in the order of its times: a task moved to a later time keeps its place.
func TestTheRestOfAPageIsNotLostWithATaskThatIsGone(t *testing.T) {
	wanted := func(id string, at int64) engine.Wanted { return engine.Wanted{ID: id, At: time.UnixMilli(at)} }
	moved, first, second := wanted("moved", 9000), wanted("first", 1000), wanted("second", 2000)
	for name, c := range map[string]struct {
		page, rest []engine.Wanted
		to         position
	}{
		"nothing read yet": {[]engine.Wanted{moved, first}, []engine.Wanted{moved, first}, position{}},
		"up to one":        {[]engine.Wanted{moved, first, second}, []engine.Wanted{first, second}, position{ID: "moved", At: 9000}},
		"it is gone":       {[]engine.Wanted{first, second}, []engine.Wanted{first, second}, position{ID: "moved", At: 9000}},
		"it has moved on":  {[]engine.Wanted{wanted("moved", 9500), first}, []engine.Wanted{wanted("moved", 9500), first}, position{ID: "moved", At: 9000}},
	} {
		u := upcoming{UpcomingPage: engine.UpcomingPage{Wanted: c.page}}
		u.skip(c.to)
		require.Equal(t, c.rest, u.Wanted, name)
	}
}
