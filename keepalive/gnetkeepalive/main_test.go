package gnetkeepalive

import (
	"flag"
	"testing"

	"github.com/heartwheel-go/heartwheel/internal/leaktest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Most of these tests wait for time to pass, and take next to nothing of the processors
	// meanwhile. So their timeouts can be such as a busy machine keeps.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	leaktest.Main(m)
}
