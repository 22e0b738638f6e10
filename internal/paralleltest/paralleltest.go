// Package paralleltest is for packages whose tests mostly wait: for timeouts, or for leases to end.
// They take next to nothing of the processors meanwhile, so many can wait at the same time, and
// their timeouts can be such as a busy machine keeps.
package paralleltest

import (
	"flag"
	"strconv"
)

// Set is for TestMain: it says how many tests may run at the same time, where -parallel doesn't.
func Set(n int) {
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err)
	}
}
