package adaptertest

import (
	"slices"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// Property is something that an adapter has or lacks.
type Property struct {
	Group string // of properties that belong together
	Name  string // unique in its group
	Has   bool   // false: the suite has shown that the adapter lacks it
}

// property is a Property without the adapter. The zero property is for tests that every adapter
// has to pass, and that say nothing of a single property.
type property struct{ group, name string }

const (
	life    = "life"
	idle    = "silence"
	asks    = "before the end"
	slow    = "a slow program"
	ends    = "the end"
	room    = "room"
	program = "your functions"
)

// A property of a test or of its lack, see test.
var (
	read         = property{life, "`Read`"}
	readWrite    = property{life, "`ReadWrite`"}
	manual       = property{life, "`Manual`"}
	kernel       = property{life, "`Kernel`"}
	firstMessage = property{idle, "`FirstMessage`"}
	readIdle     = property{idle, "`ReadIdle`"}
	writeIdle    = property{idle, "`WriteIdle`"}
	ownTimeouts  = property{idle, "own timeouts"}
	update       = property{idle, "`Update`"}
	hold         = property{idle, "`Hold`"}
	probing      = property{asks, "`Probe`"}
	onIdle       = property{asks, "`OnIdle`"}
	age          = property{asks, "`Age`"}
	slowProgram  = property{slow, "kills no living peer"}
	farewell     = property{ends, "farewell"}
	half         = property{ends, "`CloseHalf`"}
	reset        = property{ends, "`CloseReset`"}
	drain        = property{ends, "`Drain`"}
	peersClose   = property{ends, "a close of the peer is seen"}
	reject       = property{room, "`FullReject`"}
	perKey       = property{room, "`MaxPerKey`"}
	evict        = property{room, "`FullEvict`"}
	wait         = property{room, "`FullWait`"}
	block        = property{program, "`OnIdle` may block"}
)

// goexit has no test of its lack: that would take an event loop down. So it is no Property.
var goexit = property{"", "runtime.Goexit"}

// properties are all of them, in their order.
var properties = []property{
	read, readWrite, manual, kernel,
	firstMessage, readIdle, writeIdle, ownTimeouts, update, hold,
	probing, onIdle, age,
	slowProgram,
	farewell, half, reset, drain, peersClose,
	reject, perKey, evict, wait,
	block,
}

var lifeOf = map[keepalive.Activity]property{
	keepalive.ActivityRead:      read,
	keepalive.ActivityReadWrite: readWrite,
	keepalive.ActivityManual:    manual,
	keepalive.ActivityKernel:    {}, // without a socket it is ActivityRead, see kernelIsRead
}

// lacks returns the properties that the adapter is said to lack.
func (a Adapter) lacks() (all []property) {
	if a.Datagrams {
		all = append(all, firstMessage, half, reset, peersClose)
	}
	if a.NoSocket {
		all = append(all, kernel, readIdle, writeIdle)
	}
	if a.NoWait {
		all = append(all, wait)
	}
	if a.InLoop {
		all = append(all, block)
	}
	if a.NoGoexit {
		all = append(all, goexit)
	}
	return all
}

// concerns reports whether an adapter has to pass the test: it has what the test is of, or
// lacks what the test shows the lack of.
func (one test) concerns(a Adapter) bool {
	lacks := a.lacks()
	if one.lack != (property{}) {
		return slices.Contains(lacks, one.lack)
	}
	return !slices.Contains(lacks, one.of)
}

// proved returns the properties of an adapter after all its tests have passed.
func (a Adapter) proved() []Property {
	lacks := a.lacks()
	all := make([]Property, len(properties))
	for i, p := range properties {
		all[i] = Property{Group: p.group, Name: p.name, Has: !slices.Contains(lacks, p)}
	}
	return all
}
