package cursor_test

import (
	"encoding/base64"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/internal/cursor"
)

func TestWhatIsWrittenIsRead(t *testing.T) {
	for _, at := range []int64{math.MinInt64, -1, 0, 1, math.MaxInt64} {
		for _, rest := range []string{"", "4711", "a/b", "ü \"", "\n"} {
			gotAt, gotRest, err := cursor.Read(cursor.Write(at, rest))
			require.NoError(t, err)
			require.Equal(t, at, gotAt)
			require.Equal(t, rest, gotRest)
		}
	}
	at, rest, err := cursor.Read("")
	require.NoError(t, err)
	require.EqualValues(t, -1, at)
	require.Empty(t, rest)
}

func TestWhatNobodyHasWrittenIsRefused(t *testing.T) {
	encode := base64.RawURLEncoding.EncodeToString
	for _, bad := range []string{
		"!", "a", encode([]byte("1")), encode([]byte("/x")), encode([]byte("+1/x")), encode([]byte("01/x")),
		encode([]byte("9223372036854775808/x")), encode([]byte("1/\xff")), encode([]byte("1/\x00")), cursor.Write(1, "x") + "=",
	} {
		_, _, err := cursor.Read(bad)
		require.ErrorIs(t, err, engine.ErrArgument, "%q", bad)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(cursor.Write(1, "a"))
	f.Add("////")
	f.Fuzz(func(t *testing.T, text string) {
		at, rest, err := cursor.Read(text)
		if err != nil {
			require.ErrorIs(t, err, engine.ErrArgument)
			return
		}
		if text != "" {
			require.Equal(t, text, cursor.Write(at, rest))
		}
	})
}
