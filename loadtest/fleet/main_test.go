package fleet

import (
	"testing"

	"github.com/heartwheel-go/heartwheel/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }
