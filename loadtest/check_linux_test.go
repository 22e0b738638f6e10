package main

import (
	"math"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/loadtest/internal/proc"
)

func TestSettingsThatAreTooSmallAreNamed(t *testing.T) {
	have, err := setting("fs.epoll.max_user_watches")
	require.NoError(t, err)
	require.NoError(t, checkSetting("fs.epoll.max_user_watches", have[0]))
	require.ErrorContains(t, checkSetting("fs.epoll.max_user_watches", have[0]+1), "fs.epoll.max_user_watches is ")
	require.NoError(t, checkSetting("no.such.setting", 1))

	require.NoError(t, checkFiles(1))
	require.NoError(t, checkPorts(1))
	require.ErrorContains(t, checkPorts(100_000), "net.ipv4.ip_local_port_range has ")
	require.NoError(t, checkMemory(1, 1, ""))
	require.ErrorContains(t, checkMemory(1<<30, 1, "net"), "GB of memory are available, and this run needs ")
	require.NoError(t, checkConntrack(1))

	most, err := setting("fs.file-max")
	require.NoError(t, err)
	if most[0] < math.MaxInt/2 {
		require.ErrorContains(t, checkFiles(most[0]+1), "fs.file-max is ")
	}
}

func TestProcessorTimeAndMemoryOfThisProcess(t *testing.T) {
	m := newMeter()
	m.begin()
	sum := 0.0
	for begin := proc.ProcessorTime(os.Getpid()); proc.ProcessorTime(os.Getpid())-begin < 50*time.Millisecond; {
		for i := range 1_000_000 {
			sum += float64(i)
		}
	}
	m.end()
	servers, self, _ := m.cores()
	require.Positive(t, sum)
	require.Zero(t, servers)
	require.Positive(t, self)
	require.Greater(t, m.selfRSS, int64(1<<20))
}
