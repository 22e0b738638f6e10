// Package leaktest looks for goroutines that tests leave behind, in packages
// that import gnet.
package leaktest

import (
	"testing"

	"go.uber.org/goleak"
)

// Main is for TestMain: it runs the tests and then fails where goroutines are
// left, other than those that importing gnet starts: the two of its pool of
// workers, and workers that are idle.
func Main(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/panjf2000/ants/v2.(*poolCommon).purgeStaleWorkers"),
		goleak.IgnoreAnyFunction("github.com/panjf2000/ants/v2.(*poolCommon).ticktock"),
		goleak.IgnoreAnyFunction("github.com/panjf2000/ants/v2.(*goWorker).run.func1"),
	)
}
