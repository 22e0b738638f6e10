package kubernetes

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func itoa(n int32) string { return strconv.Itoa(int(n)) }

func atoi(t *testing.T, text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	require.NoError(t, err)
	return n
}
