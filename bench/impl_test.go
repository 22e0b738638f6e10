package bench

import (
	"math/rand/v2"
	"time"
)

// deadlines are what each implementation is measured by: numbered deadlines, one
// per connection, with the same timeout.
type deadlines interface {
	// add starts deadline i, d from now.
	add(i int, d time.Duration)
	// touch moves deadline i to the timeout from now.
	touch(i int)
	remove(i int)
	close()
}

// setting is what an implementation is made for.
type setting struct {
	conns   int
	tick    time.Duration
	timeout time.Duration
	expired func(i int)
}

func usual(conns int) setting {
	return setting{conns: conns, tick: 100 * time.Millisecond, timeout: 30 * time.Second, expired: func(int) {}}
}

const slots = 600

// impl is an implementation.
type impl struct {
	name string
	most int  // connections beyond which it is not measured: too slow, too big, or out of descriptors
	sets bool // sets a real timer: it can be asked when it fires
	make func(setting) deadlines
}

// limit is what no implementation can beat: one atomic load and one atomic store
// on a line of its own.
var limit = impl{name: "limit", make: newLimit}

// handles are the implementations that give the caller something to keep.
var handles = []impl{
	{name: "heartwheel", sets: true, make: newHeartwheel},
	{name: "time.Timer", sets: true, make: newStdTimer},
	{name: "stdlazy", sets: true, make: newStdLazy},
	{name: "flatsweep", sets: true, make: newFlatSweep},
	{name: "scan", make: newScan},
	{name: "russellluo", sets: true, make: newRussellLuo},
	{name: "antlabs", sets: true, make: newAntlabs},
	{name: "rfyiamcool", sets: true, make: newRfyiamcool},
	{name: "goroutine", most: 100_000, make: newGoroutines},
	{name: "SetReadDeadline", most: maxSockets, make: newReadDeadlines},
	{name: "nbio", most: maxSockets, make: newNbio},
}

// keyeds are the implementations that find a deadline by a key.
var keyeds = []impl{
	{name: "heartwheel-keyed", sets: true, make: newHeartwheelKeyed},
	{name: "go-zero", sets: true, make: newGoZero},
	{name: "ouqiang", most: 10_000, make: newOuqiang},
}

// everyone is all of them, without the limit.
func everyone() []impl { return append(append([]impl(nil), handles...), keyeds...) }

// order is in which order connections speak, compared with the order in which
// they were opened.
type order string

const (
	inOrder  order = "sequential"
	shuffled order = "random"
)

// open makes the connections of s and starts their deadlines, so that touching
// 0, 1, 2 and so on meets their memory in the given order.
func (im impl) open(s setting, o order) deadlines {
	d := im.make(s)
	opened := make([]int, s.conns)
	for i := range opened {
		opened[i] = i
	}
	if o == shuffled {
		rand.Shuffle(s.conns, func(i, j int) { opened[i], opened[j] = opened[j], opened[i] })
	}
	for _, i := range opened {
		d.add(i, s.timeout)
	}
	return d
}
