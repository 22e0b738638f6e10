package ssekeepalive

import (
	"testing"

	"github.com/heartwheel-go/heartwheel/internal/testmain"
)

func TestMain(m *testing.M) {
	testmain.Parallel(24) // those with sockets wait
	testmain.Run(m)
}
