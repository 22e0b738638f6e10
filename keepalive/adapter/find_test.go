package adapter

import (
	"sync"
	"testing"
)

// An adapter may be loaded while others are at work.
func TestFoundWhileAnAdapterIsLoaded(t *testing.T) {
	before := finders.Load()
	defer finders.Store(before)
	var looking sync.WaitGroup
	looking.Go(func() {
		for range 100 {
			Found(t)
		}
	})
	for range 10 {
		Find(func(any) Binding { return nil })
	}
	looking.Wait()
}
