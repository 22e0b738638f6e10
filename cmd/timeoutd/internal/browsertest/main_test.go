//go:build browser

package browsertest

import (
	"testing"

	"github.com/heartwheel-go/heartwheel/internal/browsertest/tab"
)

func TestMain(m *testing.M) { tab.Main(m) }
