package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/heartwheel-go/heartwheel/loadtest/internal/proc"
)

// checkMachine returns an error for each setting of this machine too small for the run. Both ends of
// the connections are on this machine.
func checkMachine(cfg config, p plan) error {
	if p.procs == 0 {
		return nil
	}
	conns := cfg.conns + cfg.probes
	ends := 2 * conns
	return errors.Join(
		checkFiles(ends+spareSystemFiles),
		checkSetting("fs.epoll.max_user_watches", ends),
		checkSetting("net.core.somaxconn", min(conns, maxWaiting)/p.procs),
		checkPorts(min(conns, perSource)),
		checkConntrack(conns),
		checkMemory(conns, p.procs, cfg.baseline),
	)
}

const (
	spareSystemFiles = 4096

	// What both ends of a connection take, and a server without connections: see
	// RESULTS.md.
	perConnBytes      = 10 << 10
	perGoroutineBytes = 20 << 10
	perServerBytes    = 20 << 20
)

func checkSetting(name string, need int) error {
	have, err := setting(name)
	if err != nil || have[0] >= need {
		return nil // no such setting, no such limit
	}
	return fmt.Errorf("%s is %d, and this run needs %d: sysctl -w %[1]s=%[3]d", name, have[0], need)
}

func checkFiles(need int) error {
	most, err := setting("fs.file-max")
	if err != nil {
		return nil
	}
	used := 0
	if nr, err := setting("fs.file-nr"); err == nil {
		used = nr[0]
	}
	if most[0]-used >= need {
		return nil
	}
	return fmt.Errorf("fs.file-max is %d, of which %d are in use, and this run needs %d: sysctl -w fs.file-max=%d", most[0], used, need, used+need)
}

// checkPorts looks at the number of ports of a source address.
func checkPorts(need int) error {
	r, err := setting("net.ipv4.ip_local_port_range")
	if err != nil || len(r) < 2 || r[1]-r[0]+1 >= need {
		return nil
	}
	return fmt.Errorf("net.ipv4.ip_local_port_range has %d ports, and this run needs %d: sysctl -w net.ipv4.ip_local_port_range=\"%d %d\"",
		r[1]-r[0]+1, need, 65535-need, 65535)
}

// checkConntrack looks at connection tracking, if it has something to track.
func checkConntrack(need int) error {
	const name = "net.netfilter.nf_conntrack_max"
	most, err := setting(name)
	count, err2 := setting("net.netfilter.nf_conntrack_count")
	if err != nil || err2 != nil || count[0] == 0 || most[0]-count[0] >= need {
		return nil
	}
	return fmt.Errorf("%s is %d, of which %d are in use, and this run needs %d: sysctl -w %[1]s=%d", name, most[0], count[0], need, count[0]+need)
}

func checkMemory(conns, procs int, baseline string) error {
	each := perConnBytes
	if baseline == "net" {
		each += perGoroutineBytes
	}
	need := int64(conns)*int64(each) + int64(procs)*perServerBytes
	if have, ok := proc.BytesIn("/proc/meminfo", "MemAvailable"); ok && have < need {
		return fmt.Errorf("%.1f GB of memory are available, and this run needs %.1f GB", float64(have)/1e9, float64(need)/1e9)
	}
	return nil
}

// setting returns the numbers in a setting of the kernel.
func setting(name string) ([]int, error) {
	b, err := os.ReadFile(settingFile(name))
	if err != nil {
		return nil, err
	}
	var numbers []int
	for _, field := range strings.Fields(string(b)) {
		n, err := strconv.Atoi(field)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		numbers = append(numbers, n)
	}
	if len(numbers) == 0 {
		return nil, fmt.Errorf("%s is empty", name)
	}
	return numbers, nil
}

func settingFile(name string) string { return "/proc/sys/" + strings.ReplaceAll(name, ".", "/") }
