package keepalive

import (
	"fmt"
	"math"

	"github.com/heartwheel-go/heartwheel/internal/rlimit"
)

// MaxConns returns for how many connections this process has descriptors, for Room.MaxConns. It
// takes the limit on descriptors in force (ulimit -n), less the open ones, less a reserve, and
// less some to spare: 64, or a 32nd of all if that is more. They are for connections that are
// refused, or have their farewell, and for files.
//
// reserve is how many more descriptors the program will open: one for each listener, file and
// connection to others. With gnet, each event loop takes three, and only gnet.WithReusePort bounds
// the connections accepted and not refused yet. Call MaxConns before there are connections.
//
// MaxConns returns 0, any number of connections, if there is no limit, as on Windows. If there is
// no room for a single one, it returns [ErrArgument] with the figures.
func MaxConns(reserve int) (int, error) {
	if reserve < 0 {
		return 0, wrong("reserve %d, must not be negative", reserve)
	}
	open := rlimit.Open()
	limit, room, spare, ok := rlimit.Room(reserve, open)
	if !ok || limit == math.MaxInt {
		return 0, nil
	}
	if room < 1 {
		return 0, fmt.Errorf("%w: reserve %d: the process may have %d descriptors, of which %d are open and %d to spare: none is left for connections",
			ErrArgument, reserve, limit, open, spare)
	}
	return room, nil
}
