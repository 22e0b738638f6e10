package connpool

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/heartwheel-go/heartwheel/internal/testmain"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testmain.Patient(m)) }
