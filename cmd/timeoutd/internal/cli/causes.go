package cli

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/heartwheel-go/heartwheel/cmd/timeoutd/internal/api"
)

// listCauses says why tasks are dead. With -json it prints the first answer.
func listCauses(s *session, _ *flag.FlagSet) func(context.Context, []string) error {
	return func(ctx context.Context, words []string) error {
		groups, other := make(map[string]api.Cause), int64(0)
		for cursor := ""; ; {
			var told api.Causes
			more, err := s.ask(ctx, http.MethodGet, topicPath(words[0])+"/dead/causes?"+url.Values{"cursor": {cursor}}.Encode(), nil, &told)
			if err != nil || !more {
				return err
			}
			other += told.Other
			for _, group := range told.Causes {
				if before, known := groups[group.ID]; known {
					tasks := before.Tasks + group.Tasks
					if before.Newest.After(group.Newest.Time) {
						group = before
					}
					group.Tasks = tasks
				}
				groups[group.ID] = group
			}
			if cursor = told.Next; cursor == "" {
				break
			}
		}
		t := newTable(s.out, "CAUSE", "TASKS", "NEWEST", "EXAMPLE", "TARGET", "ERROR")
		for _, group := range slices.SortedFunc(maps.Values(groups), func(a, b api.Cause) int {
			return cmp.Or(cmp.Compare(b.Tasks, a.Tasks), cmp.Compare(a.ID, b.ID))
		}) {
			t.row(group.ID, number(group.Tasks), instant(group.Newest), brief(group.Sample.ID, 40), or(group.Target, "-"), brief(group.Error, 120))
		}
		if err := t.Flush(); err != nil {
			return err
		}
		if other > 0 {
			fmt.Fprintf(s.out, "There are %d more tasks, of more causes than an answer has.\n", other)
		}
		return nil
	}
}
