package redis

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhichRecordATopicShouldHave(t *testing.T) {
	record := func(seq int64, rest string) string {
		return fmt.Sprintf(`{"topic":{"name":"a"},"seq":%d,"rev":1,"gen":1,"born":1%s}`, seq, rest)
	}
	one, other, two, gone := record(1, ""), record(1, `,"phase":"moving"`), record(2, ""), record(3, `,"phase":"dropped"`)
	newer := strings.Replace(record(9, ""), `"born":1`, `"born":9`, 1)
	for _, c := range []struct {
		name string
		raw  string
		held map[string]int
		want string
	}{
		{"nobody knows of any", "", map[string]int{"": 5}, ""},
		{"the hash is lost", "", map[string]int{one: 5}, one},
		{"and all copies but one", "", map[string]int{"": 4, one: 1}, one},
		{"and most copies are of before", "", map[string]int{one: 4, two: 1}, two},
		{"and one has heard of the end", "", map[string]int{two: 4, gone: 1}, gone},
		{"all have it", two, map[string]int{two: 5}, two},
		{"one answers", two, map[string]int{two: 1}, two},
		{"a copy is ahead of what most have", one, map[string]int{one: 3, two: 2}, one},
		{"copies are ahead of what some have", one, map[string]int{one: 2, two: 2}, two},
		{"the end is ahead of the hash", two, map[string]int{gone: 2}, gone},
		{"most know another", other, map[string]int{other: 2, one: 3}, one},
		{"nobody knows it of most", other, map[string]int{other: 2, one: 2}, record(2, `,"phase":"moving"`)},
		{"some have one of before", two, map[string]int{two: 1, one: 2}, two},
		{"a node of an earlier version has changed it", record(0, ""), map[string]int{two: 5}, record(3, "")},
		{"a node of an earlier version has made it", record(0, ""), map[string]int{record(0, ""): 5}, record(1, "")},
		{"and changed it again", record(0, `,"phase":"moving"`), map[string]int{record(0, ""): 5}, record(1, `,"phase":"moving"`)},
		{"and no copy can take it", record(0, ""), map[string]int{}, record(0, "")},
		{"most have another topic of the same name", "", map[string]int{one: 3, newer: 2}, one},
		{"most have heard of the end of another one", "", map[string]int{gone: 3, newer: 2}, gone},
		{"some still have another one", newer, map[string]int{newer: 2, one: 2}, newer},
		{"most would not take it", two, map[string]int{one: 3}, one},
	} {
		got, err := quorum(c.raw, c.held)
		require.NoError(t, err)
		var want kept
		if c.want != "" {
			require.NoError(t, parse(c.want, &want))
		}
		require.Equal(t, want, got.kept, c.name)
	}
}
