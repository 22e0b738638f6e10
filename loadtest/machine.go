package main

import (
	"os"
	"runtime"
	"strings"
)

// machine is what a run was made on.
type machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
	Files  int    `json:"files"` // descriptors that a process may have
}

func thisMachine(files int) machine {
	m := machine{Cores: runtime.NumCPU(), Go: strings.TrimPrefix(runtime.Version(), "go"), Files: files, CPU: runtime.GOARCH, Kernel: runtime.GOOS}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = "Linux " + strings.TrimSpace(string(b))
	}
	b, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(b)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			m.CPU = strings.TrimSpace(value)
			break
		}
	}
	return m
}
