package testserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/heartwheel-go/heartwheel/internal/process"
	"github.com/heartwheel-go/heartwheel/internal/testmain"
)

// NoFsync is an argument for Postgres: the server does not wait for the disk. Committed data
// then survives a Kill, since the kernel has it, but not a loss of power.
const NoFsync = "fsync=off"

// Postgres starts a PostgreSQL server with the superuser postgres, without a password. The
// settings come last on its command line, each as "name=value"; see NoFsync. It needs Main.
func Postgres(t testing.TB, settings ...string) *Server {
	t.Helper()
	return start(t, postgres(settings...))
}

// SharedPostgres returns the PostgreSQL server shared by the tests of this package. It runs with
// NoFsync, and has connections for several fleets of nodes. See Database.
func SharedPostgres(t testing.TB) *Server {
	t.Helper()
	return sharedPostgres.get(t, postgres(NoFsync, "max_connections=400"))
}

var (
	sharedPostgres shared
	databases      atomic.Int64
)

// Database returns the URL of a new database on the shared server of this package. The database
// is dropped when the test ends.
func Database(t testing.TB) string {
	t.Helper()
	s := SharedPostgres(t)
	name := fmt.Sprintf("test%d", databases.Add(1))
	do := func(statement string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if _, err := s.query(ctx, statement); err != nil {
			t.Fatalf("testserver: %v", err)
		}
	}
	do("CREATE DATABASE " + name)
	t.Cleanup(func() { do("DROP DATABASE " + name + " WITH (FORCE)") })
	return fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable", s.Addr, name)
}

func postgres(settings ...string) program {
	return program{
		name:    "postgres",
		scheme:  "postgres",
		path:    "/postgres?user=postgres&sslmode=disable",
		prepare: preparePostgres,
		command: func(s *Server) (string, []string, error) {
			name, err := postgresProgram("postgres")
			args := []string{"-D", filepath.Join(s.Dir, "data"), "-p", strconv.Itoa(s.port)}
			for _, setting := range append([]string{"listen_addresses=127.0.0.1", "unix_socket_directories="}, settings...) {
				args = append(args, "-c", setting)
			}
			return name, args, err
		},
		ready: func(ctx context.Context, s *Server) error {
			_, err := s.query(ctx, "SELECT 1")
			return err
		},
		stop:  syscall.SIGINT, // without waiting for clients
		quit:  syscall.SIGQUIT,
		sweep: removeSharedMemory,
	}
}

// removeSharedMemory removes a segment of System V shared memory: the mark of a data directory in
// use. It is small, but the number of segments is limited.
func removeSharedMemory(s *Server) {
	said, err := os.ReadFile(filepath.Join(s.Dir, "data", "postmaster.pid"))
	if err != nil {
		return // the server has done so itself
	}
	if lines := strings.Split(string(said), "\n"); len(lines) > 6 {
		if fields := strings.Fields(lines[6]); len(fields) == 2 { // its key and its id
			_ = exec.Command("ipcrm", "-m", fields[1]).Run()
		}
	}
}

// query returns the answer to a statement, a line for each row. It runs psql: a client library would
// be a dependency of everybody who imports a package tested here.
func (s *Server) query(ctx context.Context, statement string) (string, error) {
	cmd, err := psql(ctx, s.URL, "-c", statement)
	if err != nil {
		return "", err
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	answer, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", statement, err, said.String())
	}
	return string(answer), err
}

func psql(ctx context.Context, url string, args ...string) (*exec.Cmd, error) {
	server, err := postgresProgram("postgres")
	if err != nil {
		return nil, err
	}
	if server, err = filepath.EvalSymlinks(server); err != nil {
		return nil, err
	}
	name := filepath.Join(filepath.Dir(server), "psql") // Debian's psql in PATH is a slow script around it
	return exec.CommandContext(ctx, name, append([]string{"--no-psqlrc", "--no-password", "--no-align", "--tuples-only", "--quiet", url}, args...)...), nil
}

// postgresProgram finds the newest version if Debian has installed several.
func postgresProgram(name string) (string, error) {
	return find(name, "postgresql", "/usr/lib/postgresql/*/bin/"+name)
}

// needPostgres ends a test if PostgreSQL is missing.
func needPostgres(t testing.TB) {
	t.Helper()
	_, err := postgresProgram("postgres")
	testmain.Need(t, err)
}

// preparePostgres gives a server its data directory: a copy of one made once.
func preparePostgres(s *Server) error {
	template.once.Do(func() {
		if template.err = atEnd.add(func() { _ = os.RemoveAll(template.dir) }); template.err == nil {
			template.dir, template.err = initdb()
		}
	})
	if template.err != nil {
		return template.err
	}
	who, err := postgresUser()
	if err != nil {
		return err
	}
	s.who = who
	data := filepath.Join(s.Dir, "data")
	if err := os.CopyFS(data, os.DirFS(filepath.Join(template.dir, "data"))); err != nil {
		return err
	}
	return give(data, who)
}

var template struct {
	once sync.Once
	dir  string
	err  error
}

// initdb makes a data directory.
func initdb() (dir string, err error) {
	name, err := postgresProgram("initdb")
	if err != nil {
		return "", err
	}
	who, err := postgresUser()
	if err != nil {
		return "", err
	}
	if dir, err = tempDir("initdb"); err != nil {
		return dir, err
	}
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return dir, err
	}
	if err := give(data, who); err != nil {
		return dir, err
	}
	cmd := exec.Command(name, "--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C", "-D", data)
	cmd.Dir, cmd.SysProcAttr = dir, attributes(who)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	p, err := process.Start(cmd)
	if err == nil {
		<-p.Ended()
		err = p.Err()
	}
	if err != nil {
		return dir, fmt.Errorf("initdb: %w\n%s", err, said.String())
	}
	return dir, nil
}

// account is a user of this machine.
type account struct{ uid, gid int }

// postgresUser returns the account that runs PostgreSQL: it refuses to run as root. Nil stands
// for the account of the tests, if that is not root.
func postgresUser() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	who, err := user.Lookup("postgres")
	if err != nil {
		if who, err = user.Lookup("nobody"); err != nil {
			return nil, err
		}
	}
	uid, err := strconv.Atoi(who.Uid)
	gid, err2 := strconv.Atoi(who.Gid)
	return &account{uid, gid}, errors.Join(err, err2)
}

// give makes all files in a directory private to who. If who is nil, the owner stays.
func give(dir string, who *account) error {
	return filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		mode := os.FileMode(0o600)
		if d.IsDir() {
			mode = 0o700
		}
		if err := os.Chmod(path, mode); err != nil || who == nil {
			return err
		}
		return os.Chown(path, who.uid, who.gid)
	})
}
