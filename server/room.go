package server

import (
	"fmt"
	"math"

	"github.com/heartwheel-go/heartwheel/internal/rlimit"
)

const (
	// minSpare descriptors, or a 32nd of all if that is more, are kept free of connections,
	// besides the open ones and those of the loops. gnet shuts itself down if an accept finds
	// no descriptor, and a connection over the limit is accepted before it is refused.
	minSpare   = 64
	spareShare = 32

	// perLoop is a listener, an epoll and an eventfd.
	perLoop = 3
)

// openNow returns how many descriptors are open.
func openNow() int { return rlimit.Open() }

// room returns the number of connections for which there are descriptors, and the number of
// descriptors kept free. open is the number of open descriptors without a connection. ok is
// false if there is no limit.
func room(loops, open int) (limit, room, spare int, ok bool) {
	if limit, ok = rlimit.Files(); !ok {
		return 0, 0, 0, false
	}
	spare = max(minSpare, limit/spareShare)
	return limit, limit - spare - perLoop*loops - open, spare, true
}

// maxConns returns how many connections to serve if the config wants want. open is as in room.
func maxConns(want, loops, open int) (int, error) {
	limit, room, _, ok := room(loops, open)
	if !ok {
		return want, nil
	}
	if room < 1 || want > room {
		return 0, fmt.Errorf("%w: Room.MaxConns %d: the process may have %d descriptors, of which %d are not for connections, so there is room for %d",
			ErrArgument, want, limit, limit-room, max(room, 0))
	}
	if want == 0 {
		return room, nil
	}
	return want, nil
}

// mostOpen returns how many connections may have a descriptor, during their farewells, too:
// half of the spare descriptors are for the farewells, less one per loop for a connection
// accepted and not refused yet. The other half is for the rest of the program.
func mostOpen(loops, open int) int64 {
	_, room, spare, ok := room(loops, open)
	if !ok {
		return math.MaxInt64
	}
	return int64(room + max(spare/2-loops, 0))
}
