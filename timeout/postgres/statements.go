package postgres

import (
	"embed"
	"fmt"
	"reflect"
	"strings"
)

//go:embed sql/*.sql
var texts embed.FS

// statements are the files of directory sql, each for the field of its name.
type statements struct {
	Claim, Count, Delete, Drop, Executions, Extend, Fence, Get, Insert, Lease, List, Lock,
	Move, Notify, Now, Peek, Planner, Remove, Replay, Set, Settle, SettleDone, Shorten, ShortenFences, Sweep, SweepDropped,
	SweepLog, SweepRest, Topics, Upcoming, Wanted string
}

// snippets are what the statements have in common.
var snippets = []string{
	"{now}", "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint",
	"{clock}", "clock AS MATERIALIZED (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now)",
	"{in k.after}", "least(clock.now + k.after, 253402300799999)",
	"{task}", "t.id, t.state, t.at, t.due, t.version, t.attempts, t.node, t.error, t.callback, t.payload",
}

// newStatements returns the statements for the tables of a schema.
func newStatements(schema string) statements {
	var s statements
	replacer := strings.NewReplacer(append(snippets, "{s}", quote(schema))...)
	fields := reflect.ValueOf(&s).Elem()
	for i := range fields.NumField() {
		name := "sql/" + strings.ToLower(fields.Type().Field(i).Name) + ".sql"
		text, err := texts.ReadFile(name)
		if err != nil {
			panic(fmt.Sprintf("timeout/postgres: %s: %v", name, err)) // it is embedded
		}
		fields.Field(i).SetString(replacer.Replace(string(text)))
	}
	return s
}
