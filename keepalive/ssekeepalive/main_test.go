package ssekeepalive

import (
	"testing"

	"github.com/heartwheel-go/heartwheel/internal/testmain"
)

func TestMain(m *testing.M) { testmain.Run(m) }
