package fleet

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

const module = "github.com/heartwheel-go/heartwheel"

// BuildGateway builds the gateway in a folder, and returns its file. The gateway has a module of its
// own: this program's module needs no client of Redis.
func BuildGateway(ctx context.Context, dir string) (binary string, err error) {
	root, err := goCommand(ctx, "", "list", "-m", "-f", "{{.Dir}}", module)
	if err != nil {
		return "", fmt.Errorf("building the gateway: %w (use -server outside of Heartwheel's own folder)", err)
	}
	binary = filepath.Join(dir, "gateway")
	if _, err := goCommand(ctx, filepath.Join(root, "examples"), "build", "-o", binary, "./fleet/gateway"); err != nil {
		return "", fmt.Errorf("building the gateway: %w", err)
	}
	return binary, nil
}

// goCommand runs go in a folder.
func goCommand(ctx context.Context, dir string, args ...string) (out string, err error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(stdout.String()), nil
}

// gatewayArgs are the arguments of all nodes, without their names.
func (cfg Config) gatewayArgs(prefix string) []string {
	args := []string{
		"-addr", "127.0.0.1:0",
		"-prefix", prefix,
		"-timeout", cfg.Timeout.String(),
		"-lease", cfg.Lease.String(),
		"-renew", cfg.Renew.String(),
		"-resume", cfg.resume().String(),
		"-max-conns", strconv.Itoa(cfg.most()),
		"-log-format", "json",
	}
	if cfg.Tick > 0 {
		args = append(args, "-tick", cfg.Tick.String())
	}
	if cfg.CallTimeout > 0 {
		args = append(args, "-redis-timeout", cfg.CallTimeout.String())
	}
	if cfg.NodeLease > 0 {
		args = append(args, "-node-lease", cfg.NodeLease.String())
	}
	return args
}

// gatewayEnv adds the URL of Redis to an environment; nil is this process's. The URL may have a
// password, and all users of a machine see arguments.
func gatewayEnv(env []string, redis string) []string {
	if env == nil {
		env = os.Environ()
	}
	return append(env, "REDIS_URL="+redis)
}
