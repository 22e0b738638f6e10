// Package leaktest looks for goroutines that tests leave behind, in packages
// that import gnet.
package leaktest

import (
	"testing"

	"go.uber.org/goleak"
)

// Main is for TestMain: it runs the tests and then fails where goroutines are left, other than
// those that importing gnet starts, and those that options say.
func Main(m *testing.M, options ...goleak.Option) {
	goleak.VerifyTestMain(m, append(options, Gnet()...)...)
}

// Gnet returns the options for what importing gnet starts: the two of its pool of workers, and
// workers that are idle.
func Gnet() []goleak.Option {
	return []goleak.Option{
		goleak.IgnoreAnyFunction("github.com/panjf2000/ants/v2.(*poolCommon).purgeStaleWorkers"),
		goleak.IgnoreAnyFunction("github.com/panjf2000/ants/v2.(*poolCommon).ticktock"),
		goleak.IgnoreAnyFunction("github.com/panjf2000/ants/v2.(*goWorker).run.func1"),
	}
}
