package rules_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

func TestLimit(t *testing.T) {
	age := rules.State{Age: rules.Age{From: at(1)}}
	all := rules.Policy{MaxAge: 20 * tick, MinBeat: 1, ReadIdle: 1}
	for _, c := range []struct {
		name string
		p    rules.Policy
		s    rules.State
		want rules.Time
	}{
		{"none", rules.Policy{Timeout: tick}, rules.State{}, rules.Never},
		{"a silence is none", rules.Policy{Timeout: tick}, rules.State{Silence: rules.Silence{Until: 5}}, rules.Never},
		{"an age", all, rules.State{Age: rules.Age{From: at(1)}, Rates: rules.Rates{Next: at(30)}, Idles: rules.Idles{At: at(40)}}, at(21)},
		{"a window", all, rules.State{Age: rules.Age{From: at(1)}, Rates: rules.Rates{Next: at(10)}, Idles: rules.Idles{At: at(40)}}, at(10)},
		{"read idle", all, rules.State{Age: rules.Age{From: at(1)}, Rates: rules.Rates{Next: at(10)}, Idles: rules.Idles{At: at(4)}}, at(4)},
		{"condemned", all, age.Condemned(rules.Drain), 0},
		{"no rate any more", all, rules.State{Doom: rules.Doom{Why: rules.MaxAge}}, 0},
		{"the rate allows it later", rules.Policy{Paced: true}, rules.State{Doom: rules.Doom{Why: rules.MaxAge}}, at(50)},
	} {
		require.Equal(t, c.want, rules.Limit(&c.p, c.s, &rules.Evidence{Retry: at(50)}), c.name)
	}
}

// A connection is opened and looked at with every policy.
func TestADecisionMakesNoGarbage(t *testing.T) {
	p := rules.Policy{
		Tick: tick, Blur: tick, Timeout: 16 * tick, First: tick, ReadIdle: tick, WriteIdle: tick, Pressed: tick,
		ProbeAfter: tick, ProbeTimeout: tick, ProbeCount: 1, MaxAge: tick, MinBeat: 1, MinBytes: 1, Strikes: 9, Asks: true, Paced: true,
	}
	var now rules.Time
	require.Zero(t, testing.AllocsPerRun(100, func() {
		e := rules.Evidence{CheckAt: 1, Due: true, Quiet: true}
		s := rules.Open(&p, &e)
		for range 3 {
			now = now.Add(tick)
			s, _ = rules.Decide(&p, rules.Adapt(&p, s, &e, now), &e, now)
			rules.Limit(&p, s, &e)
			rules.Deadline(&p, s, e, now)
		}
	}))
}

// Several deadlines have passed at the same instant. In a dry run each is counted.
func TestEachDeadlineIsCounted(t *testing.T) {
	p := rules.Policy{DryRun: true, MaxAge: tick, ReadIdle: tick, WriteIdle: tick, MinBytes: 1, Strikes: 1}
	s := rules.Open(&p, &rules.Evidence{})
	s.Evicted = true
	want := wait(at(32))
	for _, why := range []rules.Reason{rules.MaxAge, rules.TooSlow, rules.ReadIdle, rules.WriteIdle, rules.Evicted, rules.Idle} {
		want = counted(want, why)
	}
	trace(t, p, s, row{now: at(16), with: asked(rules.Socket{Heard: rules.Unknown, Arrived: 1}), want: want})
}

// A decision knows nothing but its arguments.
func TestRulesImportNothingThatActs(t *testing.T) {
	allowed := map[string]bool{"cmp": true, "math": true, "time": true}
	entries, err := os.ReadDir(".")
	require.NoError(t, err)
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".go") || strings.HasSuffix(entry.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), entry.Name(), nil, 0)
		require.NoError(t, err)
		for _, i := range file.Imports {
			require.True(t, allowed[strings.Trim(i.Path.Value, `"`)], "%s imports %s", entry.Name(), i.Path.Value)
			require.Nil(t, i.Name, "%s renames %s", entry.Name(), i.Path.Value)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt, *ast.SendStmt, *ast.SelectStmt, *ast.ChanType:
				t.Errorf("%s is concurrent", entry.Name())
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && n.Sel.Name != "Duration" {
					ok := strings.Contains("Nanosecond Microsecond Millisecond Second Minute Hour", n.Sel.Name)
					require.True(t, ok, "%s uses time.%s", entry.Name(), n.Sel.Name)
				}
			}
			return true
		})
	}
}

func TestRulesDependOnNothingThatActs(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command")
	}
	deps, err := exec.Command("go", "list", "-deps", ".").Output()
	require.NoError(t, err)
	for dep := range strings.FieldsSeq(string(deps)) {
		switch {
		case dep == "os", dep == "log", dep == "net", strings.HasPrefix(dep, "log/"), strings.HasPrefix(dep, "net/"), strings.HasPrefix(dep, "os/"):
			t.Errorf("rules depend on %s", dep)
		case strings.Contains(dep, ".") && !strings.HasSuffix(dep, "keepalive/internal/rules"):
			t.Errorf("rules depend on %s", dep)
		}
	}
}
