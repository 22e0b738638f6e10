package redisserver_test

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/proctest"
)

func TestAServerEndsWithItsProgramHoweverThatEnds(t *testing.T) {
	need(t)
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	_, wait := proctest.Start(t, cmd)
	addr, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	addr = addr[:len(addr)-1]
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err, addr)
	defer c.Close()

	require.NoError(t, cmd.Process.Kill())
	require.Error(t, wait())
	require.NoError(t, c.SetReadDeadline(time.Now().Add(proctest.Eternal)))
	_, err = c.Read(make([]byte, 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
}
