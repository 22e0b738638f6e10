package protocol

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// feed gives chunks to lines and returns the lines with their endings.
func feed(l *Lines, limit int, chunks ...[]byte) (got []string, tooLong bool) {
	for _, buf := range chunks {
		for len(buf) > 0 {
			var line, ending []byte
			line, ending, buf, tooLong = l.Next(buf, limit)
			if tooLong {
				return got, true
			}
			if ending != nil {
				got = append(got, string(line)+"|"+string(ending))
			}
		}
	}
	return got, false
}

func TestLines(t *testing.T) {
	for _, c := range []struct {
		stream  string
		want    []string
		tooLong bool
	}{
		{"", nil, false},
		{"a", nil, false},
		{"\n", []string{"|\n"}, false},
		{"\r\n", []string{"|\r\n"}, false},
		{"a\n", []string{"a|\n"}, false},
		{"a\r\n", []string{"a|\r\n"}, false},
		{"a\nb\r\nc", []string{"a|\n", "b|\r\n"}, false},
		{"a\rb\n", []string{"a\rb|\n"}, false},
		{"a\r\r\n", []string{"a\r|\r\n"}, false},
		{"\n\n\r\n", []string{"|\n", "|\n", "|\r\n"}, false},
		{"12345678\n", []string{"12345678|\n"}, false},
		{"12345678\r\n", []string{"12345678|\r\n"}, false},
		{"12345678\r", nil, false},
		{"12345678\rx", nil, true},
		{"123456789\n", nil, true},
		{"123456789", nil, true},
		{"ok\n123456789\nnever\n", []string{"ok|\n"}, true},
		{strings.Repeat("x", 1000), nil, true},
		{"12345678\r\r\n", nil, true},
	} {
		for i := 0; i <= len(c.stream); i++ {
			for j := i; j <= len(c.stream); j++ {
				var l Lines
				got, tooLong := feed(&l, 8, []byte(c.stream[:i]), []byte(c.stream[i:j]), []byte(c.stream[j:]))
				require.Equal(t, c.want, got, "%q split at %d and %d", c.stream, i, j)
				require.Equal(t, c.tooLong, tooLong, "%q split at %d and %d", c.stream, i, j)
			}
			if len(c.stream) > 100 {
				break
			}
		}
	}
}

func TestNoLimit(t *testing.T) {
	var l Lines
	got, tooLong := feed(&l, math.MaxInt, []byte("PI"), []byte("NG\r\n"))
	require.False(t, tooLong)
	require.Equal(t, []string{"PING|\r\n"}, got)
}

func TestLargeBuffersAreNotKept(t *testing.T) {
	var l Lines
	_, _, _, tooLong := l.Next(bytes.Repeat([]byte("x"), 10*maxKept), 1<<20)
	require.False(t, tooLong)
	line, _, _, _ := l.Next([]byte("\n"), 1<<20)
	require.Len(t, line, 10*maxKept)
	require.Nil(t, l.partial)
	_, _, _, _ = l.Next([]byte("xy"), 1<<20)
	_, _, _, _ = l.Next([]byte("z\n"), 1<<20)
	require.NotNil(t, l.partial)
	require.Empty(t, l.partial)
}

// FuzzLines compares with cutting the whole stream at once.
func FuzzLines(f *testing.F) {
	f.Add([]byte("PING\r\nPING 1\nhello\r\rworld\n\n\nQUIT\n"), uint8(3), uint8(200))
	f.Add([]byte("12345678\r\n123456789\n"), uint8(1), uint8(8))
	f.Fuzz(func(t *testing.T, stream []byte, step, limit uint8) {
		var want []string
		wantTooLong := false
		for rest := stream; len(rest) > 0 && !wantTooLong; {
			line, after, whole := bytes.Cut(rest, []byte("\n"))
			text := bytes.TrimSuffix(line, []byte("\r"))
			switch {
			case len(text) > int(limit):
				wantTooLong = true
			case whole:
				want = append(want, string(text)+"|"+string(line[len(text):])+"\n")
			}
			rest = after
		}
		var chunks [][]byte
		for rest := stream; len(rest) > 0; {
			n := min(int(step%16)+1, len(rest))
			chunks = append(chunks, rest[:n])
			rest = rest[n:]
		}
		var l Lines
		got, tooLong := feed(&l, int(limit), chunks...)
		require.Equal(t, want, got)
		require.Equal(t, wantTooLong, tooLong)
		require.LessOrEqual(t, len(l.partial), int(limit)+2)
	})
}
