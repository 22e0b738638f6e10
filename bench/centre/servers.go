package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/heartwheel-go/heartwheel/bench/internal/redisserver"
	"github.com/heartwheel-go/heartwheel/internal/port"
)

// servers are shared by all subjects.
type servers struct {
	dir      string
	server   *redisserver.Server
	redis    string // host:port
	postgres string // URL
	versions []string
	running  []*exec.Cmd
}

func startServers() (*servers, error) {
	dir, err := os.MkdirTemp("", "center")
	if err != nil {
		return nil, err
	}
	s := &servers{dir: dir}
	if err := errors.Join(os.Chmod(dir, 0o755), s.startRedis(), s.startPostgres()); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func (s *servers) startRedis() (err error) {
	if s.server, err = redisserver.Start(context.Background()); err == nil {
		s.redis = s.server.Addr
		s.versions = append(s.versions, "Redis server v="+s.server.Version)
	}
	return err
}

// startPostgres uses another user if this one is root: postgres refuses root.
func (s *servers) startPostgres() error {
	free, err := port.Free()
	if err != nil {
		return err
	}
	bin := postgresBin()
	data := filepath.Join(s.dir, "postgres")
	if err := os.Mkdir(data, 0o700); err != nil {
		return err
	}
	credential, err := unprivileged(data)
	if err != nil {
		return err
	}
	as := func(cmd *exec.Cmd) *exec.Cmd {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
		cmd.Dir = s.dir
		return cmd
	}
	initdb := as(exec.Command(filepath.Join(bin, "initdb"), "-D", data, "-U", "bench", "-A", "trust", "--no-sync"))
	if output, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, output)
	}
	s.postgres = "postgres://bench@127.0.0.1:" + free + "/postgres?sslmode=disable"
	s.note(filepath.Join(bin, "postgres"), "--version")
	return s.start(as(exec.Command(filepath.Join(bin, "postgres"), "-D", data, "-p", free, "-h", "127.0.0.1", "-k", "", "-c", "max_connections=200")), s.postgresAnswers)
}

func postgresBin() string {
	dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	if len(dirs) > 0 {
		return slices.Max(dirs)
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		return filepath.Dir(path)
	}
	return ""
}

func unprivileged(data string) (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	other, err := user.Lookup("postgres")
	if err != nil {
		if other, err = user.Lookup("nobody"); err != nil {
			return nil, err
		}
	}
	uid, err := strconv.ParseUint(other.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(other.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, os.Chown(data, int(uid), int(gid))
}

// start starts a server, and waits until it answers.
func (s *servers) start(cmd *exec.Cmd, answers func(context.Context) error) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	s.running = append(s.running, cmd)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		err := answers(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w", cmd.Path, err)
		}
	}
}

func (s *servers) postgresAnswers(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.postgres)
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

func (s *servers) note(program, arg string) {
	output, err := exec.Command(program, arg).Output()
	if err == nil {
		first, _, _ := strings.Cut(strings.TrimSpace(string(output)), " sha=")
		s.versions = append(s.versions, first)
	}
}

func (s *servers) stop() {
	for _, cmd := range s.running {
		_ = cmd.Process.Signal(syscall.SIGINT)
		_ = cmd.Wait()
	}
	if s.server != nil {
		s.server.Stop()
	}
	os.RemoveAll(s.dir)
}
