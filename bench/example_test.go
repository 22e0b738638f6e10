package bench

import (
	"fmt"
	"time"

	"github.com/zeromicro/go-zero/core/collection"
)

// What docs/migrating.md begins with.
func Example_goZero() {
	expire := func(key string, value int) { fmt.Println(key, value) }
	tw, err := collection.NewTimingWheel(time.Second, 300, func(key, value any) {
		expire(key.(string), value.(int))
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	tw.Stop()
}
