package natscall_test

import (
	"testing"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
)

func TestMain(m *testing.M) { testserver.Main(m) }
