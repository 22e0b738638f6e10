package server

import (
	"fmt"

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

// maxConns returns how many connections to serve where the config wants want, and open
// descriptors are none of them.
func maxConns(want, loops, open int) (int, error) {
	limit, ok := rlimit.Files()
	if !ok {
		return want, nil
	}
	spare := max(minSpare, limit/spareShare) + perLoop*loops + open
	room := limit - spare
	if room < 1 || want > room {
		return 0, fmt.Errorf("%w: MaxConns %d: the process may have %d descriptors, of which %d are not for connections, so there is room for %d",
			ErrArgument, want, limit, spare, max(room, 0))
	}
	if want == 0 {
		return room, nil
	}
	return want, nil
}
