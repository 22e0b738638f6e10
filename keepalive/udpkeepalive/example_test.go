package udpkeepalive_test

import (
	"fmt"
	"net"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/udpkeepalive"
)

// player is the program's part of a session.
type player struct{ moves int }

func Example() {
	ended := make(chan string, 1)
	k, err := keepalive.New(keepalive.Config{
		Timeout: 100 * time.Millisecond,
		Room:    keepalive.Room{MaxConns: 100_000, MaxPerKey: 100},
		OnClose: func(conn any, reason keepalive.Reason) {
			session := conn.(*udpkeepalive.Session[player])
			ended <- fmt.Sprint(session.Value.moves, " moves; ", reason)
		},
		Closing: keepalive.Closing{Farewell: func(any, keepalive.Reason) []byte { return []byte("bye") }},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer k.Close()
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv6loopback})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer socket.Close()
	go func() { _ = serve(socket, k) }()

	client, err := net.Dial("udp", socket.LocalAddr().String())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	fmt.Fprint(client, "north")
	buf := make([]byte, 100)
	for range 2 {
		n, err := client.Read(buf)
		fmt.Println(string(buf[:n]), err)
	}
	fmt.Println(<-ended)
	// Output:
	// you go north <nil>
	// bye <nil>
	// 1 moves; keepalive: idle timeout
}

func serve(socket *net.UDPConn, k *keepalive.Keeper) error {
	conn := udpkeepalive.Wrap[player](socket, k)
	defer conn.Close()
	for buf := make([]byte, 1500); ; {
		n, session, err := conn.Read(buf)
		if err != nil {
			return err
		}
		session.Value.moves++ // a player of your own, at first zero
		_, _ = fmt.Fprintf(session, "you go %s", buf[:n])
	}
}
