package keepalive

import (
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/heartwheel-go/heartwheel/internal/testmain"
)

func TestMain(m *testing.M) {
	testmain.Parallel(24)
	goleak.VerifyTestMain(testmain.Patient(measured{m}))
}

// overslept is how much longer than they should all sleeps of a goroutine took, one after the other, since the
// tests began. On a busy machine whatever a test sees is late like that.
var overslept atomic.Int64

// measured measures overslept while tests run.
type measured struct{ *testing.M }

func (m measured) Run() int {
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		const nap = 10 * ms
		for {
			start := time.Now()
			select {
			case <-time.After(nap):
				overslept.Add(int64(time.Since(start) - nap))
			case <-over:
				return
			}
		}
	}()
	defer func() { close(over); <-done }()
	return m.M.Run()
}
