package pool_test

import (
	"fmt"
	"time"

	"github.com/heartwheel-go/heartwheel/pool"
	"github.com/heartwheel-go/heartwheel/wheel"
)

func Example() {
	gone := make(chan string)
	p, err := pool.New(pool.Config[string]{
		Capacity: 1000,
		Wheel:    wheel.Config{Tick: 10 * time.Millisecond},
		Due: func(m *pool.Member[string], name string) {
			if _, ok := m.Expire(); ok {
				gone <- name
			}
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close()

	m := new(pool.Member[string])
	if err := p.Join(m, "alice", 50*time.Millisecond); err != nil {
		fmt.Println(err)
		return
	}
	m.Touch()
	fmt.Println(<-gone, "fell silent;", p.Wheel().Len(), "left")
	// Output: alice fell silent; 0 left
}
