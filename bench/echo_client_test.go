package bench

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// echoEnv says that this process is the client of an echo benchmark: how many
// connections each server is to get, who gives orders, and the servers.
const echoEnv = "HEARTWHEEL_BENCH_ECHO"

// echoClient is the client as the servers' process sees it. An order is the
// number of a server and how many messages are under way at once, two bytes that
// come back when it has been carried out.
type echoClient struct{ orders net.Conn }

func startEchoClient(b *testing.B, conns int, servers []net.Addr) *echoClient {
	ln := listen()
	defer ln.Close()
	args := []string{strconv.Itoa(conns), ln.Addr().String()}
	for _, s := range servers {
		args = append(args, s.String())
	}
	cmd := exec.Command(os.Args[0], "-test.run=^$", "-test.bench=^BenchmarkEcho$", "-test.benchtime=1x")
	cmd.Env = append(os.Environ(), echoEnv+"="+strings.Join(args, " "))
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	client := &echoClient{orders: accept(ln)}
	b.Cleanup(func() {
		_ = client.orders.Close()
		_ = cmd.Wait()
	})
	return client
}

// connected waits until the client has all its connections.
func (c *echoClient) connected(b *testing.B) {
	if _, err := io.ReadFull(c.orders, make([]byte, 2)); err != nil {
		b.Fatal(err)
	}
}

// exchange lets the client send one turn's messages, and returns when all have
// come back.
func (c *echoClient) exchange(server, pipeline int) error {
	order := []byte{byte(server), byte(pipeline)}
	if _, err := c.orders.Write(order); err != nil {
		return err
	}
	_, err := io.ReadFull(c.orders, order)
	return err
}

// beEchoClient carries out orders until there are no more. It says that all are
// connected by an order of its own.
func beEchoClient(args []string) {
	count, err := strconv.Atoi(args[0])
	if err != nil {
		panic(err)
	}
	orders := connect(args[1])
	var servers [][]net.Conn
	for _, addr := range args[2:] {
		var conns []net.Conn
		for range count {
			conns = append(conns, connect(addr))
		}
		servers = append(servers, conns)
	}
	order := make([]byte, 2)
	if _, err := orders.Write(order); err != nil {
		return
	}
	for {
		if _, err := io.ReadFull(orders, order); err != nil {
			return
		}
		// The next turn is that of the next connections.
		conns := servers[order[0]]
		n := min(len(conns), echoTurn)
		sendTurn(conns[:n], int(order[1]))
		servers[order[0]] = append(conns[n:], conns[:n]...)
		if _, err := orders.Write(order); err != nil {
			return
		}
	}
}

// sendTurn goes round the connections in one goroutine. With one for each, it is
// left to chance how many messages wake the server at once, and its turns differ
// twice as much.
func sendTurn(conns []net.Conn, pipeline int) {
	sent := bytes.Repeat([]byte("ping"), pipeline*echoMessage/4)
	got := make([]byte, len(sent))
	for range echoTurn / len(conns) / pipeline {
		for _, c := range conns {
			if _, err := c.Write(sent); err != nil {
				panic(err)
			}
		}
		for _, c := range conns {
			if _, err := io.ReadFull(c, got); err != nil {
				panic(err)
			}
			if !bytes.Equal(sent, got) {
				panic(fmt.Sprintf("%q came back as %q", sent, got))
			}
		}
	}
}
