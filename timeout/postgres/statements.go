package postgres

import (
	"embed"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

//go:embed sql/*.sql sql/snippets/*.sql
var texts embed.FS

// statements are the files of directory sql, each for the field of its name. LeaseOwn is lease.sql for some of
// a topic's slots: it looks at the first $11 due tasks of all, in search of them.
type statements struct {
	Claim, Count, Delete, Drop, Executions, Extend, Get, Insert, Lease, LeaseOwn, List, Lock, Look,
	Move, Notify, Now, Oldest, Peek, PeekAll, Planner, Purge, PurgeDead, PurgeDropped, PurgeLog, PurgeRest, Raise, Refile, Remove,
	Replay, ScanBefore, Set, Settle, SettleDone, Shorten, Topics, Wanted string
}

// timeOf is the action time of a waiting task, the end of the lease of a running one, and the time
// at which any other task ended. The index has column filed. For a moved task that can be an earlier
// time than the action time.
const timeOf = "CASE WHEN t.moved THEN t.due ELSE t.filed END"

// taskWith returns the columns of a task for row, with an expression for its payload.
func taskWith(payload string) string {
	return "t.id, t.state, " + timeOf + ", t.due, t.version, t.attempts, t.node, t.error, t.callback, " + payload + ", t.created, t.calls, t.failures"
}

// snippets are pairs of a placeholder and the text for it, common to the statements.
var snippets = []string{
	"{now}", "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint",
	"{clock}", "clock AS MATERIALIZED (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now)",
	"{in k.after}", "least(clock.now + k.after, 253402300799999)",
	"{time}", timeOf,
	"{until}", "CASE WHEN p.paused THEN round(extract(epoch FROM (p.config::json ->> 'paused_until')::timestamptz) * 1000)::bigint END", // Topic.PausedUntil, or null
	"{paused}", "(p.paused AND coalesce({until} > (SELECT now FROM clock), true))",
	"{task}", taskWith("t.payload"),
	"{task, brief if $10}", taskWith("CASE WHEN NOT $10 THEN t.payload END"),
}

// newStatements returns the statements for the tables of a schema.
func newStatements(schema string) statements {
	var s statements
	fill := func(text, due string) string {
		words := strings.NewReplacer(append(slices.Clone(snippets),
			"{s}", quote(schema),
			"{known}", read("snippets/known"), // whether a topic of the call is there: each row of it is compared with all of these
			"{announce}", read("snippets/announce"), // always true: it tells others of a task filed in the past
			"{front $5}", strings.ReplaceAll(read("snippets/front"), "{f}", "$5"), // where live rows begin, see the type front
			"{front $8}", strings.ReplaceAll(read("snippets/front"), "{f}", "$8"),
			"{due waiting}", strings.NewReplacer("{state}", "1", "{since}", "waiting").Replace(due), // the table of the due tasks, and conditions
			"{due running}", strings.NewReplacer("{state}", "2", "{since}", "running").Replace(due),
			"{give}\n", read("snippets/give"), // leases the picked tasks, for $4 milliseconds and for node $5
			"{forget}\n", read("snippets/forget"), // deletes the log of the tasks in gone
			"{given}\n", read("snippets/given"), // the tasks to be set, in the common order of locking rows
		)...)
		for before := ""; text != before; { // what stands for a placeholder may have some, too
			before, text = text, words.Replace(text)
		}
		return text
	}
	fields := reflect.ValueOf(&s).Elem()
	for i := range fields.NumField() {
		due := "snippets/due"
		file, some := strings.CutSuffix(fields.Type().Field(i).Name, "Own")
		if some {
			due = "snippets/dueown"
		}
		fields.Field(i).SetString(fill(read(strings.ToLower(file)), read(due)))
	}
	return s
}

func read(name string) string {
	text, err := texts.ReadFile("sql/" + name + ".sql")
	if err != nil {
		panic(fmt.Sprintf("timeout/postgres: %v", err)) // it is embedded
	}
	return string(text)
}
