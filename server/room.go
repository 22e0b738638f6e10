package server

import (
	"fmt"
	"math"

	"github.com/heartwheel-go/heartwheel/internal/rlimit"
)

const (
	// minSpare descriptors, or a 32nd of all where that is more, are kept free of
	// connections, besides those that are open already and those of the loops.
	// gnet shuts itself down when an accept finds no descriptor, and one over the
	// limit is accepted before it is refused.
	minSpare   = 64
	spareShare = 32

	// perLoop is a listener, an epoll and an eventfd.
	perLoop = 3
)

// openNow returns how many descriptors are open.
func openNow() int { return rlimit.Open() }

// room returns for how many connections there are descriptors where open are open that are
// none, and how many of the others are kept free of them. Where there is no limit, ok is
// false.
func room(loops, open int) (limit, room, spare int, ok bool) {
	if limit, ok = rlimit.Files(); !ok {
		return 0, 0, 0, false
	}
	spare = max(minSpare, limit/spareShare)
	return limit, limit - spare - perLoop*loops - open, spare, true
}

// maxConns returns how many connections to serve where the config wants want, and open
// descriptors are none of them.
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

// mostOpen returns how many connections may have a descriptor, those included that are
// being closed: half of the spare ones are for them, less one that each loop may have
// accepted and not refused yet. The other half is for the rest of the program.
func mostOpen(loops, open int) int64 {
	_, room, spare, ok := room(loops, open)
	if !ok {
		return math.MaxInt64
	}
	return int64(room + max(spare/2-loops, 0))
}
