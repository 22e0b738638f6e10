package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/process"
)

// perBalancer is the most clients of a balancer: it has two descriptors for each, and often 20,000.
const perBalancer = 8000

var errNoHAProxy = errors.New("haproxy is not on this machine: scripts/install-packages haproxy installs it (Debian's package haproxy)")

// startBalancer starts HAProxy before servers. It asks each for its readiness, and needs half of delay to notice.
func startBalancer(dir, addr string, servers []*restarted, clients int, delay time.Duration) (*process.Process, error) {
	path, err := exec.LookPath("haproxy")
	if err != nil {
		return nil, errNoHAProxy
	}
	var config strings.Builder
	fmt.Fprintf(&config, `
global
	maxconn %d
defaults
	mode tcp
	balance leastconn
	option redispatch
	retries 3
	timeout connect 30s
	timeout check 30s
	timeout client 2m
	timeout server 2m
listen front
	bind %s
	option httpchk GET /readyz
	default-server check inter %dms fall 2 rise 1
`, clients+100, addr, (delay / 4).Milliseconds())
	for _, s := range servers {
		_, port, err := net.SplitHostPort(s.admin)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&config, "\tserver %s %s port %s\n", s.name, s.addr, port)
	}
	file := filepath.Join(dir, "haproxy-"+strings.ReplaceAll(addr, ":", "-")+".cfg")
	if err := os.WriteFile(file, []byte(config.String()), 0o600); err != nil {
		return nil, err
	}
	var said strings.Builder
	cmd := exec.Command(path, "-db", "-f", file)
	cmd.Stderr = &said
	p, err := process.Start(cmd)
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		select {
		case <-p.Ended():
			return nil, fmt.Errorf("haproxy has ended at once: %w: %s", p.Err(), strings.TrimSpace(said.String()))
		default:
		}
		if c, err := net.Dial("tcp", addr); err == nil {
			_ = c.Close()
			return p, nil
		}
	}
	p.Kill()
	return nil, errors.New("haproxy does not listen")
}

// ownHost returns an address of the loopback interface for the servers of one run. Where there is more than
// 127.0.0.1, as on Linux, it is another one. Outgoing connections come from 127.0.0.1, and they are so many that one
// of them could have the port of a server that restarts.
func ownHost() string {
	host := fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
	ln, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return "127.0.0.1"
	}
	_ = ln.Close()
	return host
}

// freeAddrs returns some addresses that nobody has.
func freeAddrs(host string, n int) (addrs []string, err error) {
	for range n {
		ln, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
		if err != nil {
			return nil, err
		}
		defer ln.Close() // when all are known, or two could be the same
		addrs = append(addrs, ln.Addr().String())
	}
	return addrs, nil
}
