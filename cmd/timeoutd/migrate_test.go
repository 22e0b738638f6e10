package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/logtest"
	"github.com/heartwheel-go/heartwheel/internal/testserver"
)

func TestTablesAreChangedOnlyWhenTheOperatorSaysSo(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tasks.db")
	for name, store := range map[string][]string{
		"sqlite":   {"-sqlite", file},
		"postgres": nil,
	} {
		t.Run(name, func(t *testing.T) {
			if store == nil {
				t.Setenv("DATABASE_URL", testserver.Database(t))
			}
			do := func(migrate string) (exit int, said string) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				var out strings.Builder
				exit = run(ctx, append([]string{"-addr", "127.0.0.1:0", "-migrate", migrate}, store...), &out, &out)
				require.NoError(t, ctx.Err(), "it ends by itself")
				return exit, out.String()
			}
			exit, said := do("print")
			require.Zero(t, exit, said)
			require.Contains(t, said, "0001_tables.sql makes version 1\n")
			require.Contains(t, said, "CREATE TABLE")
			require.NotContains(t, said, "0 changes")
			if name == "sqlite" {
				_, err := os.Stat(file)
				require.ErrorIs(t, err, os.ErrNotExist)
			}
			exit, said = do("never")
			require.Equal(t, 1, exit)
			require.Contains(t, said, "are of version 0, must be ")

			exit, said = do("only")
			require.Zero(t, exit, said)
			exit, said = do("print")
			require.Zero(t, exit)
			require.Regexp(t, "^-- .*: 0 changes of tables\n$", said)

			ctx, cancel := context.WithCancel(t.Context())
			var out logtest.Log
			ended := make(chan int, 1)
			go func() {
				ended <- run(ctx, append([]string{"-addr", "127.0.0.1:0", "-migrate", "never"}, store...), &out, &out)
			}()
			out.Await(t, "msg=listening")
			cancel()
			require.Zero(t, <-ended)
		})
	}
}

func TestThereAreNoTablesInMemory(t *testing.T) {
	var out strings.Builder
	require.Zero(t, run(t.Context(), []string{"-memory", "-migrate", "print"}, &out, &out))
	require.Equal(t, "-- there are no tables\n", out.String())
	require.Equal(t, 2, run(t.Context(), []string{"-memory", "-migrate", "perhaps"}, &out, &out))
	require.Contains(t, out.String(), `"perhaps"`)
}
