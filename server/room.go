package server

import (
	"fmt"
	"math"

	"github.com/heartwheel-go/heartwheel/internal/rlimit"
)

// perLoop is a listener, an epoll and an eventfd.
const perLoop = 3

// room returns for how many connections there are descriptors, as [keepalive.MaxConns] does, for
// a known number of open descriptors. gnet shuts itself down if an accept finds no descriptor.
func room(loops, open int) (limit, room, spare int, ok bool) {
	return rlimit.Room(perLoop*loops, open)
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
