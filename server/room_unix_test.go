//go:build unix

package server

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRoomForThoseThatAreBeingClosed(t *testing.T) {
	_, room, spare, ok := room(1, 0)
	require.True(t, ok)
	require.EqualValues(t, room+spare/2-1, mostOpen(1, 0))
	require.EqualValues(t, room-10+spare/2-1, mostOpen(1, 10))
}
