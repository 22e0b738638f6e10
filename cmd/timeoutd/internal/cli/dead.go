package cli

import (
	"context"
	"flag"
	"fmt"
	"net/http"

	"github.com/heartwheel-go/heartwheel/cmd/timeoutd/internal/api"
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
		return s.each(ctx, "drop", words, "is dropped")
	}
}

// clear repeats the request as long as the server says there is more.
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
