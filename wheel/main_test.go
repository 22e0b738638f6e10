package wheel

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/heartwheel-go/heartwheel/internal/leaktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }
