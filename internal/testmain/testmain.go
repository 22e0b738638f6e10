// Package testmain has what the TestMain of many packages needs: it looks for goroutines left behind
// by tests, also if gnet is imported, and sets the number of tests at the same time.
package testmain

import (
	"flag"
	"strconv"
	"time"

	"go.uber.org/goleak"
)

// Run runs the tests, and fails if they leave goroutines behind, apart from gnet's own and those of the
// options.
func Run(m goleak.TestingM, options ...goleak.Option) {
	options = append(options, Gnet()...)
	goleak.VerifyTestMain(Patient(m, options...), options...)
}

// Parallel sets the number of tests at the same time, unless the flag -parallel is given. It is for
// packages whose tests mostly wait, for timeouts or the ends of leases. Many can wait at the same
// time, and so their timeouts can be long enough for a busy machine.
func Parallel(n int) {
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err)
	}
}

// patience is how long goroutines may take to end after the last test.
const patience = 10 * time.Second

// Patient returns m with a wait after the tests, for goroutines about to end. goleak itself waits for
// half a second, too little for a busy machine.
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

// Gnet returns the options for the goroutines of an imported gnet: two of its pool of workers, and idle
// workers.
func Gnet() []goleak.Option {
	return []goleak.Option{
		goleak.IgnoreAnyFunction("github.com/panjf2000/ants/v2.(*poolCommon).purgeStaleWorkers"),
		goleak.IgnoreAnyFunction("github.com/panjf2000/ants/v2.(*poolCommon).ticktock"),
		goleak.IgnoreAnyFunction("github.com/panjf2000/ants/v2.(*goWorker).run.func1"),
	}
}
