// Package cli has the commands. They talk to a running timeoutd by its HTTP API.
package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
)

// The exit codes of the program, besides 0.
const (
	ExitFailure = 1
	ExitUsage   = 2
)

// defaultURL is the address of a timeoutd with default settings.
const defaultURL = "http://127.0.0.1:8077"

// command is one of the commands.
type command struct {
	name  string
	args  string // the words after the name, in the help
	help  string
	least int // how many words it needs
	most  int // and may have; negative is any number
	setup setup
}

// setup adds the flags of a command, and returns it. doing does it with the words after its name.
type (
	setup func(*session, *flag.FlagSet) doing
	doing func(ctx context.Context, words []string) error
)

// plain is the setup of a command without flags of its own.
func plain(do func(*session, context.Context, []string) error) setup {
	return func(s *session, _ *flag.FlagSet) doing {
		return func(ctx context.Context, words []string) error { return do(s, ctx, words) }
	}
}

// commands returns all commands.
func commands() []command {
	return []command{
		{"set", "TOPIC ID [-after 15m | -due TIME] [-payload JSON] [-callback URL]", "set a task, whatever it was before", 2, 2, setTask},
		{"move", "TOPIC ID -after 15m | -due TIME", "change the action time of a task that waits", 2, 2, moveTask},
		{"remove", "TOPIC ID...", "remove tasks that wait, run or are dead", 2, -1, plain((*session).remove)},
		{"get", "TOPIC ID", "show a task and its payload", 2, 2, plain((*session).get)},
		{"list", "TOPIC [-state pending] [-limit 100] [-all]", "list the tasks in a state", 1, 1, listTasks},
		{"executions", "TOPIC ID", "list the attempts of a task that have ended", 2, 2, listExecutions},
		{"work", "TOPIC -exec PROGRAM [-max 4] [-lease 1m]", "run a program for each due task of a topic with -pull, until interrupted", 1, 1, work},
		{"feedback", "TOKEN [-error TEXT] [-permanent | -retry-after 1m]", "tell the outcome of a task that was pulled or accepted", 1, 1, feedback},
		{"dead", "TOPIC [-limit 100] [-all]", "list the tasks that are dead", 1, 1, listDead},
		{"causes", "TOPIC", "say why tasks are dead, by error and target", 1, 1, plain((*session).causes)},
		{"replay", "TOPIC ID... | -all | -cause CAUSE", "have tasks that are dead run again", 1, -1, clearTasks("replay", (*session).Replay, "runs again", (*session).ReplayDead, "run again")},
		{"drop", "TOPIC ID... | -all | -cause CAUSE", "remove tasks that are dead", 1, -1, clearTasks("drop", (*session).removeDead, "is dropped", (*session).DropDead, "dropped")},
		{"topics", "", "list the topics", 0, 0, plain((*session).topics)},
		{"topic", "TOPIC [-slots 16] [-retries 3] ...", "show a topic, or change what is said and make it if need be", 1, 1, changeTopic},
		{"pause", "TOPIC [-for 15m | -until TIME]", "accept tasks of a topic and run none", 1, 1, pauseTopic},
		{"resume", "TOPIC", "end a pause", 1, 1, plain((*session).resume)},
		{"drop-topic", "TOPIC", "end a topic and all that is in it", 1, 1, dropTopic},
		{"close-circuit", "CIRCUIT", "make calls to a target again, on the node that is asked", 1, 1, plain((*session).closeCircuit)},
		{"stats", "", "show what is going on", 0, 0, plain((*session).stats)},
		{"members", "", "list the nodes", 0, 0, plain((*session).members)},
		{"watch", "[-every 1s]", "show what is going on until interrupted", 0, 0, watch},
	}
}

// Names returns the names of all commands.
func Names() []string {
	return append(wire.Each(commands(), func(c command) string { return c.name }), "help")
}

// usageError is a mistake in the command line.
type usageError struct{ error }

func misused(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// session is one run of a command.
type session struct {
	*timeoutclient.Client
	said   recorder
	stdout io.Writer
	asJSON bool
	out    io.Writer // for people: stdout, or with -json nothing
}

// Run runs the command in args, and returns the exit code.
func Run(ctx context.Context, args []string, env func(string) (string, bool), stdout, stderr io.Writer) int {
	err := dispatch(ctx, args, env, stdout)
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "timeoutd: %s\n", clean(err.Error()))
	if _, ok := errors.AsType[usageError](err); ok {
		return ExitUsage
	}
	return ExitFailure
}

func dispatch(ctx context.Context, args []string, env func(string) (string, bool), stdout io.Writer) error {
	if args[0] == "help" {
		help(stdout)
		return nil
	}
	all := commands()
	i := slices.IndexFunc(all, func(c command) bool { return c.name == args[0] })
	if i < 0 {
		return misused("unknown command %.50q: timeoutd help lists them", args[0])
	}
	c := all[i]
	s := &session{stdout: stdout, out: stdout}
	flags := flag.NewFlagSet("timeoutd "+c.name, flag.ContinueOnError)
	flags.SetOutput(io.Discard) // an error is reported once, by the caller
	address := flags.String("url", "", "where the server is ($TIMEOUTD_URL; else "+defaultURL+")")
	flags.BoolVar(&s.asJSON, "json", false, "print what the server has answered")
	do := c.setup(s, flags)
	words, err := parse(flags, args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		helpOn(stdout, c, flags)
		return nil
	case err != nil:
		return usageError{fmt.Errorf("%s: %w", c.name, err)}
	case len(words) < c.least || c.most >= 0 && len(words) > c.most:
		return misused("%s with the words %q, must be: timeoutd %s", c.name, words, strings.TrimSpace(c.name+" "+c.args))
	}
	if c.most == 2 && slices.Contains([]string{".", "..", "/"}, words[1]) { // the id becomes a part of a path
		return misused("%s with the id %q, which fits into no path, must be another one", c.name, words[1])
	}
	if s.said.keeps = s.asJSON; s.asJSON {
		s.out = io.Discard
	}
	if s.Client, err = newClient(*address, env, &s.said); err != nil {
		return usageError{err}
	}
	defer s.Close()
	return do(ctx, words)
}

// parse reads flags and words in any order: "--" ends the flags.
func parse(flags *flag.FlagSet, args []string) (words []string, err error) {
	for {
		if err := flags.Parse(args); err != nil {
			return nil, err
		}
		left := flags.Args()
		if len(left) == 0 {
			return words, nil
		}
		if n := len(args) - len(left); n > 0 && args[n-1] == "--" {
			return append(words, left...), nil
		}
		words, args = append(words, left[0]), left[1:]
	}
}

func help(w io.Writer) {
	fmt.Fprintln(w, "Usage: timeoutd COMMAND [flags]")
	fmt.Fprintln(w, "\nThe server is at -url or $TIMEOUTD_URL, and $TIMEOUTD_TOKEN is the token for it.")
	fmt.Fprintln(w, "timeoutd COMMAND -h says more; timeoutd -h is about the server.")
	fmt.Fprintln(w)
	for _, c := range commands() {
		fmt.Fprintf(w, "  %s\n        %s\n", strings.TrimSpace(c.name+" "+c.args), c.help)
	}
}

func helpOn(w io.Writer, c command, flags *flag.FlagSet) {
	fmt.Fprintf(w, "Usage: timeoutd %s\n%s\n\n", strings.TrimSpace(c.name+" "+c.args), c.help)
	flags.SetOutput(w)
	flags.PrintDefaults()
}
