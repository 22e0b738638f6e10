package timeout

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestATwinIsWhoGoesOnBeating(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	type beat struct {
		after time.Duration
		other string
		news  twinNews
		run   string
	}
	for name, beats := range map[string][]beat{
		"nobody":      {{0, "", twinSame, ""}, {3 * time.Second, "", twinSame, ""}},
		"predecessor": {{0, "a", twinSame, ""}, {3 * time.Second, "", twinSame, ""}, {time.Minute, "", twinSame, ""}},
		"came first":  {{0, "a", twinSame, ""}, {3 * time.Second, "a", twinRuns, "a"}},
		"came later": {
			{0, "", twinSame, ""},
			{3 * time.Second, "a", twinRuns, "a"},
			{6 * time.Second, "a", twinSame, "a"},
			{9 * time.Second, "", twinSame, "a"}, // it beats less often
			{12 * time.Second, "a", twinSame, "a"},
			{63*time.Second - 1, "a", twinSame, "a"},
			{63 * time.Second, "a", twinRuns, "a"},
			{83 * time.Second, "", twinSame, "a"},
			{83*time.Second + 1, "", twinGone, ""},
			{90 * time.Second, "", twinSame, ""},
			{93 * time.Second, "b", twinRuns, "b"},
		},
		"three": {{0, "", twinSame, ""}, {3 * time.Second, "a", twinRuns, "a"}, {6 * time.Second, "b", twinSame, "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			other := twin{keep: 20 * time.Second}
			for _, b := range beats {
				require.Equal(t, b.news, other.met(b.other, start.Add(b.after)), b.after)
				require.Equal(t, b.run, other.run, b.after)
			}
		})
	}
}
