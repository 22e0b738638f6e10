package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// buildGateway builds the gateway, which is in a module of its own: this program, and all that
// is in its module, needs no client of Redis.
func (s *servers) buildGateway(ctx context.Context) (binary string, err error) {
	root, err := goCommand(ctx, "", "list", "-m", "-f", "{{.Dir}}", module)
	if err != nil {
		return "", fmt.Errorf("building the gateway: %w (use -server outside of Heartwheel's own folder)", err)
	}
	if s.dir, err = os.MkdirTemp("", "loadtest"); err != nil {
		return "", fmt.Errorf("building the gateway: %w", err)
	}
	binary = filepath.Join(s.dir, "gateway")
	if _, err := goCommand(ctx, filepath.Join(root, "examples"), "build", "-o", binary, "./fleet/gateway"); err != nil {
		return "", fmt.Errorf("building the gateway: %w", err)
	}
	return binary, nil
}

// goCommand runs go in a folder, whose module is the only one that counts.
func goCommand(ctx context.Context, dir string, args ...string) (out string, err error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(stdout.String()), nil
}

// gatewayArgs are those of all nodes, but for their names.
func (cfg config) gatewayArgs(prefix string) []string {
	args := []string{
		"-addr", "127.0.0.1:0",
		"-prefix", prefix,
		"-timeout", cfg.timeout.String(),
		"-tick", cfg.tick.String(),
		"-lease", cfg.lease.String(),
		"-renew", cfg.renew.String(),
		"-resume", cfg.resume().String(),
		"-max-conns", strconv.Itoa(max(cfg.mostOfNode(), divideUp(cfg.conns, cfg.nodes))),
		"-log-format", "json",
	}
	if cfg.callTimeout > 0 {
		args = append(args, "-redis-timeout", cfg.callTimeout.String())
	}
	if cfg.nodeLease > 0 {
		args = append(args, "-node-lease", cfg.nodeLease.String())
	}
	return args
}

// gatewayEnv says where Redis is, whose URL may have a password, which arguments show to everybody
// on the machine.
func (p plan) gatewayEnv(redis string) []string {
	env := p.serverEnv()
	if env == nil {
		env = os.Environ()
	}
	return append(env, "REDIS_URL="+redis)
}
