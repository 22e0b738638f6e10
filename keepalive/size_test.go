package keepalive

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// These are sizes of the allocator's: a byte more in either, and each connection pays 16.
func TestSizesOfAConnection(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("sizes of a machine of 64 bits")
	}
	require.LessOrEqual(t, unsafe.Sizeof(Guard{}), uintptr(128))
	require.LessOrEqual(t, unsafe.Sizeof(more{}), uintptr(160))
}
