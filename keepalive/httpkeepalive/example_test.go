package httpkeepalive_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/httpkeepalive"
)

func Example() {
	k, err := keepalive.New(keepalive.Config{Timeout: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer k.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()

	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	httpkeepalive.Wrap(srv, k)
	go func() { _ = srv.Serve(k.Listener(ln)) }() // or srv.ServeTLS

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := httpkeepalive.Shutdown(ctx, srv, k); err != nil {
		fmt.Println(err)
	}
}

// An event stream writes until its client leaves, its connection reaches its maximum age, or the server
// stops.
func ExampleEnding() {
	events := make(chan string)
	http.HandleFunc("/events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for http.NewResponseController(w).Flush() == nil {
			select {
			case event := <-events:
				fmt.Fprintf(w, "data: %s\n\n", event)
			case <-httpkeepalive.Ending(r):
				return
			case <-r.Context().Done():
				return
			}
		}
	})
}

// A hijacked connection, or a WebSocket, with a timeout of its own and its session.
func ExampleGuard() {
	type session struct{ name string }
	http.HandleFunc("/chat", func(_ http.ResponseWriter, r *http.Request) {
		guard := httpkeepalive.Guard(r)
		_, _ = guard.SetTimeout(5 * time.Minute)
		guard.SetValue(&session{name: r.FormValue("name")})
	})
	_ = keepalive.Config{
		OnIdle: func(conn any, _ keepalive.Reason) keepalive.Verdict {
			if s, ok := keepalive.Of(conn).Value().(*session); ok {
				fmt.Println(s.name, "is silent")
			}
			return keepalive.Close
		},
	}
}
