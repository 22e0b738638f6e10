package proc

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The processors of a large machine are busy for centuries in a few weeks.
func TestJiffiesOfALargeMachine(t *testing.T) {
	require.Equal(t, 1234*time.Second, jiffies("123400"))
	require.Equal(t, 100*365*24*time.Hour, jiffies("315360000000"))
}
