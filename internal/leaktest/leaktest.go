// Package leaktest looks for goroutines that tests leave behind, in packages
// that import gnet.
package leaktest

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Main is for TestMain: it runs the tests and then fails where goroutines are left, other than
// those that importing gnet starts, and those that options say.
func Main(m *testing.M, options ...goleak.Option) {
	options = append(options, Gnet()...)
	goleak.VerifyTestMain(Patient(m, options...), options...)
}

// patience is how long goroutines may take to end after the last test.
const patience = 10 * time.Second

// Patient returns what runs the tests and then waits for the goroutines that are about to end:
// goleak alone looks for half a second, and on a busy machine that is soon over.
func Patient(m goleak.TestingM, options ...goleak.Option) goleak.TestingM {
	return patient{m, options}
}

type patient struct {
	goleak.TestingM
	options []goleak.Option
}

func (p patient) Run() int {
	code := p.TestingM.Run()
	for end := time.Now().Add(patience); code == 0 && time.Now().Before(end); {
		if goleak.Find(p.options...) == nil {
			break
		}
	}
	return code
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
