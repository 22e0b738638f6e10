//go:build interop

package main

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/examples/internal/exampletest"
	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/udpkeepalive"
)

// Three clients with three addresses are one peer, by its name. A hello begins anew.
func TestANameMovesBetweenClients(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	ends := map[keepalive.Reason]int{}
	k, err := keepalive.New(keepalive.Config{Timeout: exampletest.Late, OnClose: func(_ any, reason keepalive.Reason) {
		mu.Lock()
		defer mu.Unlock()
		ends[reason]++
	}})
	require.NoError(t, err)
	defer k.Close()
	socket, err := listen("127.0.0.1:0")
	require.NoError(t, err)
	conn := udpkeepalive.Wrap[lines](socket, k)
	named := map[string]*udpkeepalive.Session[lines]{}
	name := func(datagram []byte) string { return strings.Fields(string(datagram) + " ?")[0] }
	conn.Owner = func(datagram []byte, _ udpkeepalive.Path) *udpkeepalive.Session[lines] { return named[name(datagram)] }
	var serving sync.WaitGroup
	serving.Go(func() {
		for buf := make([]byte, 1500); ; {
			n, session, err := conn.Read(buf)
			if err == nil && strings.Contains(string(buf[:n]), "hello") {
				session, err = session.Restart()
			}
			if err != nil {
				return
			}
			named[name(buf[:n])] = session
			session.Value++
			_, _ = fmt.Fprintf(session, "%d\n", session.Value)
		}
	})
	defer serving.Wait()
	defer conn.Close()
	host, port, err := net.SplitHostPort(conn.LocalAddr().String())
	require.NoError(t, err)
	for i, args := range [][]string{
		{"netcat-openbsd", "nc", "-u", host, port},
		{"netcat-openbsd", "nc", "-u", host, port},
		{"socat", "socat", "STDIO", "UDP:" + net.JoinHostPort(host, port)},
	} {
		c := exampletest.Run(t, exampletest.Program(t, args[0], args[1], args[2:]...))
		fmt.Fprintln(c.In, "bob is here")
		got, err := bufio.NewReader(c.Out).ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintln(i+1), got)
		require.Equal(t, 1, k.Len())
	}
	c := exampletest.Run(t, exampletest.Program(t, "netcat-openbsd", "nc", "-u", host, port))
	fmt.Fprintln(c.In, "bob says hello")
	got, err := bufio.NewReader(c.Out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "1\n", got)
	require.Equal(t, 1, k.Len())
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, map[keepalive.Reason]int{keepalive.ReasonPeer: 1}, ends)
}
