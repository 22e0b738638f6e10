package cli

import (
	"context"
	"flag"
	"fmt"
	"net/http"

	"github.com/heartwheel-go/heartwheel/cmd/timeoutd/internal/api"
	"github.com/heartwheel-go/heartwheel/timeout"
)

func replayTasks(s *session, flags *flag.FlagSet) func(context.Context, []string) error {
	all := flags.Bool("all", false, "all that are dead")
	return func(ctx context.Context, words []string) error {
		if *all == (len(words) > 1) {
			return misused("replay with ids and -all, or none of them, must have one")
		}
		if *all {
			return s.clear(ctx, words[0], "replay", "run again")
		}
		return s.each(ctx, "replay", words, "runs again")
	}
}

func dropTasks(s *session, flags *flag.FlagSet) func(context.Context, []string) error {
	all := flags.Bool("all", false, "all that are dead")
	return func(ctx context.Context, words []string) error {
		if *all == (len(words) > 1) {
			return misused("drop with ids and -all, or none of them, must have one")
		}
		if *all {
			return s.clear(ctx, words[0], "drop", "dropped")
		}
		if err := s.checkDead(ctx, words); err != nil {
			return err
		}
		return s.each(ctx, "remove", words, "is dropped")
	}
}

// checkDead keeps drop from removing what waits or runs.
func (s *session) checkDead(ctx context.Context, words []string) error {
	for _, id := range words[1:] {
		var found api.Tasks
		quiet := *s
		quiet.asJSON = false
		key := timeout.Key{Topic: words[0], ID: id}
		if _, err := quiet.ask(ctx, http.MethodPost, "/v1/tasks/get", api.Keys{Keys: []timeout.Key{key}}, &found); err != nil {
			return err
		}
		if len(found.Tasks) != 1 || found.Tasks[0].State != timeout.Dead {
			return fmt.Errorf("%v is not dead, and nothing was dropped: see remove", key)
		}
	}
	return nil
}

// clear goes on until nothing more is dead.
func (s *session) clear(ctx context.Context, topic, verb, done string) error {
	total := int64(0)
	for {
		var cleared api.Cleared
		quiet := *s
		quiet.asJSON = false
		if _, err := quiet.ask(ctx, http.MethodPost, topicPath(topic)+"/dead/"+verb, nil, &cleared); err != nil {
			return fmt.Errorf("%d %s, and then: %w", total, done, err)
		}
		total += cleared.Changed
		if !cleared.More {
			break
		}
	}
	if s.asJSON {
		fmt.Fprintf(s.out, "{\"changed\":%d,\"more\":false}\n", total)
		return nil
	}
	fmt.Fprintf(s.out, "%d %s\n", total, done)
	return nil
}
