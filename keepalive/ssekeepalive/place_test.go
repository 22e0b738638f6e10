package ssekeepalive

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnEventEndsWithABlankLine(t *testing.T) {
	for _, test := range []struct {
		writes  []string
		between bool
	}{
		{nil, true},
		{[]string{""}, true},
		{[]string{"data: x"}, false},
		{[]string{"data: x\n"}, false},
		{[]string{"data: x\n\n"}, true},
		{[]string{"data: x\n", "\n"}, true},
		{[]string{"data: x", "\n", "\n"}, true},
		{[]string{"data: x\r\n"}, false},
		{[]string{"data: x\r\n\r\n"}, true},
		{[]string{"data: x\r", "\n"}, false},
		{[]string{"data: x\r", "\n", "\n"}, true},
		{[]string{"data: x\r\r"}, true},
		{[]string{"data: x\r\r", "\n"}, true},
		{[]string{"data: x\n\r"}, true},
		{[]string{"data: x\n\r\n"}, true},
		{[]string{"data: x\n\ndata: y"}, false},
		{[]string{"data: x\n\n", "", "data: y\n"}, false},
		{[]string{"data: x\n\n", "data: y\n", "", "data: z\n\n"}, true},
		{[]string{"\n"}, true},
		{[]string{"\r", "\n"}, true},
		{[]string{": a comment\n"}, false},
		{[]string{"\n\n\n\n", "x"}, false},
	} {
		t.Run(fmt.Sprintf("%q", test.writes), func(t *testing.T) {
			var p place
			for _, written := range test.writes {
				p.pass([]byte(written))
			}
			require.Equal(t, test.between, p.isBetweenEvents())
		})
	}
}

// FuzzPlace compares with a parser that reads each byte, whatever the writes are.
func FuzzPlace(f *testing.F) {
	f.Add([]byte("data: x\r\n\r\n: y\n\n"), uint64(0b101))
	f.Add([]byte("\r\n\n\rx\r"), uint64(0xffff))
	f.Fuzz(func(t *testing.T, all []byte, cuts uint64) {
		var p place
		from := 0
		for i := range all {
			if cuts>>(i%64)&1 == 1 {
				p.pass(all[from:i])
				from = i
			}
		}
		p.pass(all[from:])
		require.Equal(t, isBetweenEvents(all), p.isBetweenEvents(), "%q", all)
	})
}

// isBetweenEvents splits lines as the standard says, and looks at the last one.
func isBetweenEvents(all []byte) bool {
	line, last := 0, -1 // bytes of the line so far, and of the last complete one
	for i, b := range all {
		switch {
		case b == '\n' && i > 0 && all[i-1] == '\r':
		case b == '\n' || b == '\r':
			line, last = 0, line
		default:
			line++
		}
	}
	return line == 0 && last <= 0
}
