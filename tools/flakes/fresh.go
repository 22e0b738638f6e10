package main

import (
	"context"
	"fmt"
	"time"
)

// fresh runs tests, and says which of them failed, and which did not run as often as they must.
func (r *runner) fresh(ctx context.Context, tests []test, long time.Duration) error {
	fmt.Printf("%s, %d times each\n", plural(len(tests), "test"), r.times)
	for _, t := range tests {
		r.build(binary{t.Package, t.tags})
	}
	results := r.all(ctx, tests, long)
	failed, fewer := 0, 0
	for _, t := range tests {
		switch one := results[t]; {
		case one.failed != "":
			failed++
			fmt.Printf("FAIL  %s: %s\n", t, one.failed)
		case one.skip != "":
			fewer++
			fmt.Printf("----  %s: not run: %s\n", t, one.skip)
		case one.runs < r.times:
			fewer++
			fmt.Printf("%4d  %s: it takes %v\n", one.runs, t, one.took.Round(time.Millisecond))
		}
	}
	fmt.Printf("%s: %d failed, %d ran less than %d times\n", plural(len(tests), "test"), failed, fewer, r.times)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return failure(failed)
}
