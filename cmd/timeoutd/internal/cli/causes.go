package cli

import (
	"cmp"
	"context"
	"flag"
	"fmt"
)

// listCauses says why tasks are dead. With -json it prints all answers, each in a line.
func listCauses(s *session, _ *flag.FlagSet) func(context.Context, []string) error {
	return func(ctx context.Context, words []string) error {
		causes, other, err := s.Causes(ctx, words[0])
		if done, err := s.done(err); done {
			return err
		}
		t := newTable(s.out, "CAUSE", "TASKS", "NEWEST", "EXAMPLE", "TARGET", "ERROR")
		for _, c := range causes {
			t.row(c.ID, number(c.Tasks), instant(c.Newest.Time), brief(c.Sample.ID, 40), cmp.Or(c.Target, "-"), brief(c.Error, 120))
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
