package timeout

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestADuplicateIsWhoGoesOnWithHeartbeats(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	type heartbeat struct {
		after time.Duration
		other string
		news  duplicateNews
		run   string
	}
	for name, heartbeats := range map[string][]heartbeat{
		"nobody":      {{0, "", duplicateSame, ""}, {3 * time.Second, "", duplicateSame, ""}},
		"predecessor": {{0, "a", duplicateSame, ""}, {3 * time.Second, "", duplicateSame, ""}, {time.Minute, "", duplicateSame, ""}},
		"came first":  {{0, "a", duplicateSame, ""}, {3 * time.Second, "a", duplicateRuns, "a"}},
		"came later": {
			{0, "", duplicateSame, ""},
			{3 * time.Second, "a", duplicateRuns, "a"},
			{6 * time.Second, "a", duplicateSame, "a"},
			{9 * time.Second, "", duplicateSame, "a"}, // it sends heartbeats less often
			{12 * time.Second, "a", duplicateSame, "a"},
			{63*time.Second - 1, "a", duplicateSame, "a"},
			{63 * time.Second, "a", duplicateRuns, "a"},
			{83 * time.Second, "", duplicateSame, "a"},
			{83*time.Second + 1, "", duplicateGone, ""},
			{90 * time.Second, "", duplicateSame, ""},
			{93 * time.Second, "b", duplicateRuns, "b"},
		},
		"three": {{0, "", duplicateSame, ""}, {3 * time.Second, "a", duplicateRuns, "a"}, {6 * time.Second, "b", duplicateSame, "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			other := duplicate{keep: 20 * time.Second}
			for _, b := range heartbeats {
				require.Equal(t, b.news, other.met(b.other, start.Add(b.after)), b.after)
				require.Equal(t, b.run, other.run, b.after)
			}
		})
	}
}
