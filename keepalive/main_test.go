package keepalive

import (
	"flag"
	"testing"

	"go.uber.org/goleak"

	"github.com/heartwheel-go/heartwheel/internal/leaktest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Most of these tests wait for time to pass, and take next to nothing of the processors
	// meanwhile. So their timeouts can be such as a busy machine keeps.
	if err := flag.Set("test.parallel", "24"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(leaktest.Patient(m))
}
