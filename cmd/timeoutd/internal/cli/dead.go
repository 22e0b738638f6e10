package cli

import (
	"cmp"
	"context"
	"flag"
	"fmt"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient"
)

// clearTasks is replay and drop: of some tasks, of all that are dead, or of those with one cause.
func clearTasks(
	verb string, some func(*session, context.Context, []engine.Key) ([]timeoutclient.Answer, error), one string,
	dead func(s *session, ctx context.Context, topic, cause string) (int64, error), many string,
) setup {
	return func(s *session, flags *flag.FlagSet) doing {
		all := flags.Bool("all", false, "all that are dead")
		cause := flags.String("cause", "", "those with that cause: timeoutd causes lists them")
		return func(ctx context.Context, words []string) error {
			chosen := min(len(words)-1, 1) + min(len(*cause), 1)
			if *all {
				chosen++
			}
			if chosen != 1 {
				return misused("%s with %d of ids, -all and -cause, must have one", verb, chosen)
			}
			if keys := keysOf(words); len(keys) > 0 {
				found, err := some(s, ctx, keys)
				return s.each(keys, found, err, one)
			}
			total, err := dead(s, ctx, words[0], *cause)
			if err != nil {
				return fmt.Errorf("%d %s, and then: %w", total, many, err)
			}
			if s.asJSON {
				fmt.Fprintf(s.stdout, "{\"changed\":%d,\"more\":false}\n", total)
			}
			fmt.Fprintf(s.out, "%d %s\n", total, many)
			return nil
		}
	}
}

func (s *session) removeDead(ctx context.Context, keys []engine.Key) ([]timeoutclient.Answer, error) {
	return s.RemoveAll(ctx, removals(keys, engine.Dead))
}

// causes says why tasks are dead. With -json it prints all answers, each in a line.
func (s *session) causes(ctx context.Context, words []string) error {
	causes, other, err := s.Causes(ctx, words[0])
	t := newTable(s.out, "CAUSE", "TASKS", "NEWEST", "EXAMPLE", "TARGET", "ERROR")
	for _, c := range causes {
		t.row(c.ID, number(c.Tasks), instant(c.Newest.Time), brief(c.Sample.ID, 40), cmp.Or(c.Target, "-"), brief(c.Error, 120))
	}
	if other > 0 {
		t.row(fmt.Sprintf("There are %d more tasks, of more causes than an answer has.", other))
	}
	return s.show(err, t)
}
