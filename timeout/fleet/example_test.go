package fleet_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/timeout/fleet"
)

// A gateway whose clients say who they are on the first line, and then now and then something.
func Example() {
	ctx := context.Background()
	node, err := fleet.New(ctx, fleet.Config{
		URL:  "redis://localhost:6379",
		Node: "10.0.0.1:9000",
		OnOffline: func(_ context.Context, end fleet.Offline) error {
			fmt.Println(end.Session, end.Epoch, "is offline:", end.Reason, "last seen", end.LastSeen)
			return nil // done; an error would have it told again
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()

	keeper, err := keepalive.New(keepalive.Config{Timeout: 30 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	defer keeper.Close()

	ln, err := net.Listen("tcp", ":9000")
	if err != nil {
		log.Fatal(err)
	}
	ln = keeper.Listener(ln)
	for {
		conn, err := ln.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go func() {
			defer conn.Close()
			var user string
			if _, err := fmt.Fscanln(conn, &user); err != nil {
				return
			}
			if _, err := node.RegisterGuarded(ctx, keeper, conn, user, nil); err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, conn)
		}()
	}
}

func ExampleNode_Lookup() {
	ctx := context.Background()
	node, err := fleet.New(ctx, fleet.Config{URL: "redis://localhost:6379", Node: "10.0.0.1:9000"})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()

	where, err := node.Lookup(ctx, "user-7")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(where.Node, "has it since", where.Since)
}
