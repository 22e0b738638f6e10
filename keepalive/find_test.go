package keepalive

import (
	"sync"
	"testing"
)

// An adapter may be loaded while others are at work.
func TestOfWhileAFinderIsAdded(t *testing.T) {
	before := finders.Load()
	defer finders.Store(before)
	var looking sync.WaitGroup
	looking.Go(func() {
		for range 100 {
			Of(t)
		}
	})
	for range 10 {
		addFinder(func(any) *Guard { return nil })
	}
	looking.Wait()
}
