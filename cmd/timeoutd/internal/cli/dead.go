package cli

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/url"

	"github.com/heartwheel-go/heartwheel/cmd/timeoutd/internal/api"
)

// clearTasks is replay and drop: of some tasks, of all that are dead, or of those with one cause.
func clearTasks(verb, many, one string) func(*session, *flag.FlagSet) func(context.Context, []string) error {
	return func(s *session, flags *flag.FlagSet) func(context.Context, []string) error {
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
				return s.each(ctx, verb, words, one)
			default:
				return s.clear(ctx, words[0], verb, *cause, many)
			}
		}
	}
}

// clear repeats the request as long as the server says there is more.
func (s *session) clear(ctx context.Context, topic, verb, cause, done string) error {
	total, query := int64(0), url.Values{}
	if cause != "" {
		query.Set("cause", cause)
	}
	for {
		var cleared api.Cleared
		quiet := *s
		quiet.asJSON = false
		if _, err := quiet.ask(ctx, http.MethodPost, topicPath(topic)+"/dead/"+verb+"?"+query.Encode(), nil, &cleared); err != nil {
			return fmt.Errorf("%d %s, and then: %w", total, done, err)
		}
		total += cleared.Changed
		if !cleared.More {
			break
		}
		query.Set("cursor", cleared.Next)
	}
	if s.asJSON {
		fmt.Fprintf(s.out, "{\"changed\":%d,\"more\":false}\n", total)
		return nil
	}
	fmt.Fprintf(s.out, "%d %s\n", total, done)
	return nil
}
