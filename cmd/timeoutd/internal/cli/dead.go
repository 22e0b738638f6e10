package cli

import (
	"cmp"
	"context"
	"flag"
	"fmt"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// clearTasks is replay and drop: of some tasks, of all that are dead, or of those with one cause.
func clearTasks(verb, many, one string) setup {
	return func(s *session, flags *flag.FlagSet) doing {
		all := flags.Bool("all", false, "all that are dead")
		cause := flags.String("cause", "", "those with that cause: timeoutd causes lists them")
		return func(ctx context.Context, words []string) error {
			chosen := 0
			for _, given := range []bool{len(words) > 1, *all, *cause != ""} {
				if given {
					chosen++
				}
			}
			switch {
			case chosen != 1:
				return misused("%s with %d of ids, -all and -cause, must have one", verb, chosen)
			case len(words) > 1:
				keys := keysOf(words)
				if verb == "replay" {
					found, err := s.Replay(ctx, keys)
					return s.each(keys, found, err, one)
				}
				found, err := s.RemoveAll(ctx, removals(keys, engine.Dead))
				return s.each(keys, found, err, one)
			default:
				return s.clear(ctx, words[0], verb, *cause, many)
			}
		}
	}
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

// clear replays or drops what is dead.
func (s *session) clear(ctx context.Context, topic, verb, cause, done string) error {
	do := s.ReplayDead
	if verb == "drop" {
		do = s.DropDead
	}
	total, err := do(ctx, topic, cause)
	switch {
	case err != nil:
		return fmt.Errorf("%d %s, and then: %w", total, done, err)
	case s.asJSON:
		fmt.Fprintf(s.out, "{\"changed\":%d,\"more\":false}\n", total)
	default:
		fmt.Fprintf(s.out, "%d %s\n", total, done)
	}
	return nil
}
