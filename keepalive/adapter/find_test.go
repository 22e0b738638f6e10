package adapter

import (
	"sync"
	"testing"
)

// An adapter may be loaded while others are at work.
func TestFoundWhileAnAdapterIsLoaded(t *testing.T) {
	before := len(finders.All())
	defer func() {
		_ = finders.Change(func(all []func(any) Binding) ([]func(any) Binding, error) { return all[:before], nil })
	}()
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
