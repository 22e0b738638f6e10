// Command timeoutd serves a timeout center over HTTP. Its commands talk to a running one.
//
//	timeoutd
//	timeoutd set orders 4711 -after 15m -callback http://127.0.0.1:9000/unpaid
//	timeoutd watch
//
// "timeoutd completion bash" (or zsh, or fish) prints completions for that shell, and "timeoutd man" a page of the manual.
// Without a command it serves. It keeps tasks in an SQLite file, unless REDIS_URL,
// DATABASE_URL or another setting names another store. A config file (-config) can have the
// same settings as the flags. The environment wins over the file, and flags win over both.
// Tokens, secrets and URLs with a password have no flags: everybody on the machine can see those.
//
// SIGINT, SIGTERM and SIGHUP end it gracefully. For -drain-delay it is only not ready. Then it begins
// no more calls, hands back the tasks it has not begun, and gives running calls -grace to end.
// A second SIGINT or SIGTERM ends it at once with exit code 1, and the programs of work with it. This
// loses nothing either. Flags that make no sense end it with exit code 2 and one line. A later failure
// ends it with exit code 1.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	_ "time/tzdata" // for images and machines without time zones

	goredis "github.com/redis/go-redis/v9"

	"github.com/heartwheel-go/heartwheel/cmd/timeoutd/internal/cli"
)

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	ends, hangups := make(chan os.Signal, 2), make(chan os.Signal, 1)
	signal.Notify(ends, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it
		signal.Notify(hangups, syscall.SIGHUP)
	}
	go func() {
		select {
		case <-ends:
		case <-hangups: // a terminal that is closed sends several, and the end of a session others beside it
			cancel()
			<-ends
		}
		cancel()
		<-ends
		cli.KillPrograms()
		os.Exit(cli.ExitFailure)
	}()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (exit int) {
	if newOptions().Shell(stdout, args, "durable tasks with a due time, over HTTP", cli.Names()...) {
		return 0
	}
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		return cli.Run(ctx, args, os.LookupEnv, stdout, stderr)
	}
	o, err := read(args, os.LookupEnv)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, "Usage: timeoutd [flags]            serves a timeout center\n"+
			"       timeoutd COMMAND [flags]    talks to one: timeoutd help lists the commands\n")
		newOptions().Usage(stdout)
		return 0
	}
	if err == nil {
		err = errors.Join(o.CheckNames(os.Environ(), "TIMEOUTD_URL", "TIMEOUTD_TOKEN"), o.validate()) // those are for commands
	}
	switch {
	case err != nil:
		fmt.Fprintf(stderr, "timeoutd: %s\n", strings.ReplaceAll(err.Error(), "\n", "; "))
		return cli.ExitUsage
	case o.check:
		fmt.Fprintln(stderr, "timeoutd: this makes sense")
		return 0
	}
	cli.SurviveBrokenPipes() // its log's reader may end before it
	p := newProgram(o, stderr)
	if o.migrate == migratePrint {
		if err := o.printMigrations(ctx, stdout); err != nil {
			p.log.Error("stopped", "error", err)
			return cli.ExitFailure
		}
		return 0
	}
	goredis.SetLogger(redisLog{p.log}) // go-redis has one for the whole process
	if err := p.run(ctx); err != nil {
		p.log.Error("stopped", "error", err)
		return cli.ExitFailure
	}
	p.log.Info("stopped")
	return 0
}
