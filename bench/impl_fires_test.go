package bench

import (
	"testing"
	"testing/synctest"
	"time"
)

// What is measured must work: a deadline that was touched holds, and then passes.
// Only roughly, since most implementations fire early.
func TestEachImplementationFires(t *testing.T) {
	const conns, tick, timeout = 10, 10 * time.Millisecond, 500 * time.Millisecond
	for _, im := range everyone() {
		if !im.sets {
			continue
		}
		t.Run(im.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFiring(conns)
				f.left.Add(-1) // for the one that is removed
				d := im.make(setting{conns: conns, tick: tick, timeout: timeout, expired: f.expired})
				for i := range conns {
					d.add(i, timeout)
				}
				time.Sleep(timeout / 2)
				for i := range conns {
					f.due[i] = time.Since(f.start) + timeout
					d.touch(i)
				}
				d.remove(0)
				f.wait(time.Minute)
				d.close()
				late := f.late()
				if len(late) != conns-1 || f.fired[0].Load() != 0 {
					t.Fatalf("%d fired, of %d that were not removed", len(late), conns-1)
				}
				if late[0] < -3*tick {
					t.Errorf("fired %v early: the touch did not count", -late[0])
				}
			})
		})
	}
}
