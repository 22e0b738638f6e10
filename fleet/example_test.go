package fleet_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"os/signal"
	"syscall"
	"time"

	"github.com/heartwheel-go/heartwheel/fleet"
	"github.com/heartwheel-go/heartwheel/keepalive"
)

// A gateway. Its clients send their name on the first line, and then now and then something.
func Example() {
	ctx := context.Background()
	keeper, err := keepalive.New(keepalive.Config{Timeout: 30 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	defer keeper.Close()

	node, err := fleet.Open(ctx, "redis://localhost:6379", fleet.Config{
		Node:   "10.0.0.1:9000",
		Keeper: keeper,
		OnOffline: func(_ context.Context, end fleet.Offline) error {
			fmt.Println(end.Session, end.Epoch, "is offline:", end.Reason.String(), "last seen", end.LastSeen)
			return nil // done; an error would have it told again
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()

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
			if _, err := node.Register(ctx, conn, user, nil); err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, conn)
		}()
	}
}

func ExampleNode_Lookup() {
	ctx := context.Background()
	node, err := fleet.Open(ctx, "redis://localhost:6379", fleet.Config{Node: "10.0.0.1:9000"})
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

// A gateway goes down: its clients come back to others, and nobody is told of anything.
func ExampleNode_Drain() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	node, err := fleet.Open(ctx, "redis://localhost:6379", fleet.Config{
		Node:   "10.0.0.1:9000",
		Resume: time.Minute, // for clients to be back
		OnEnd: func(s *fleet.Session, why fleet.Reason) {
			if why == fleet.ReasonDraining {
				_, _ = io.WriteString(s.Conn().(net.Conn), "come back to another gateway\n")
			}
		},
	})
	if err != nil {
		log.Fatal(err)
	}

	<-ctx.Done()
	limit, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := node.Drain(limit); err != nil {
		log.Println("some sessions end with their leases:", err)
	}
	_ = node.Close()
}

func ExampleNode_LookupAll() {
	ctx := context.Background()
	node, err := fleet.Open(ctx, "redis://localhost:6379", fleet.Config{Node: "pages"})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()

	friends, err := node.LookupAll(ctx, []string{"user-7", "user-8"})
	if err != nil {
		log.Fatal(err)
	}
	for _, friend := range friends {
		fmt.Println(friend.Session, friend.Epoch != 0 && !friend.Detached)
	}
}
