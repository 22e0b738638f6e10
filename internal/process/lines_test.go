package process

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLinesAreWholeHoweverTheyCome(t *testing.T) {
	const text = "one\n\ntwo\nthree"
	for size := 1; size <= len(text); size++ {
		var got []string
		l := Lines{Each: func(line []byte) { got = append(got, string(line)) }}
		for rest := text; rest != ""; rest = rest[min(size, len(rest)):] {
			n, err := l.Write([]byte(rest[:min(size, len(rest))]))
			require.NoError(t, err)
			require.Equal(t, min(size, len(rest)), n)
		}
		require.Equal(t, strings.Split(text, "\n")[:3], got, size)
	}
}
