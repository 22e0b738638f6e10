// Command web is a wall on one port with TLS: WebSockets write on it, and event streams show it. Each user may have two
// WebSockets.
package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/httpkeepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/ssekeepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/wskeepalive"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	cert, err := tls.LoadX509KeyPair("cert.pem", "key.pem")
	if err != nil {
		log.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:8443")
	if err != nil {
		log.Fatal(err)
	}
	log.Println("listening on", ln.Addr())
	if err := Serve(ctx, ln, cert, time.Minute); err != nil {
		log.Fatal(err)
	}
}

// Serve runs the wall until ctx is done.
func Serve(ctx context.Context, ln net.Listener, cert tls.Certificate, timeout time.Duration) error {
	k, err := keepalive.New(keepalive.Config{
		Timeout: timeout,
		Room:    keepalive.Room{MaxPerUser: 2},
		OnClose: func(conn any, reason keepalive.Reason) {
			if name, ok := keepalive.Of(conn).Value().(string); ok {
				log.Println(name, "has left:", reason)
			}
		},
	})
	if err != nil {
		return err
	}
	defer k.Close()
	streams, err := ssekeepalive.New(ssekeepalive.Config{Interval: timeout / 2}) // a vanished watcher shows when it takes nothing
	if err != nil {
		return err
	}
	defer streams.Close()
	w := &wall{watchers: map[chan string]bool{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /write", w.write)
	mux.Handle("GET /events", streams.Wrap(http.HandlerFunc(w.events)))
	srv := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 5 * time.Second,
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{cert}},
	}
	httpkeepalive.Wrap(srv, k)
	ended := make(chan error, 1)
	go func() { ended <- srv.ServeTLS(k.Listener(ln), "", "") }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	patience, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return httpkeepalive.Shutdown(patience, srv, k)
}

type wall struct {
	mu       sync.Mutex
	watchers map[chan string]bool
}

func (w *wall) write(rw http.ResponseWriter, r *http.Request) {
	guard, name := httpkeepalive.Guard(r), r.FormValue("name") // of a login, say
	if err := guard.SetKey(name); err != nil {
		rw.Header().Set("Retry-After", "60")
		http.Error(rw, err.Error(), http.StatusTooManyRequests)
		return
	}
	ws, err := new(websocket.Upgrader).Upgrade(rw, r, nil)
	if err != nil {
		_ = guard.SetKey("") // the connection may go on with HTTP
		return
	}
	defer ws.Close()
	guard.SetValue(name)
	if err := wskeepalive.Gorilla(guard, ws); err != nil {
		return
	}
	for {
		_, text, err := ws.ReadMessage()
		if err != nil {
			return
		}
		guard.Touch()
		w.show(string(text))
	}
}

func (w *wall) show(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.watchers {
		select {
		case c <- text:
		default: // too slow
		}
	}
}

func (w *wall) events(rw http.ResponseWriter, r *http.Request) {
	c := make(chan string, 16)
	w.mu.Lock()
	w.watchers[c] = true
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		delete(w.watchers, c)
		w.mu.Unlock()
	}()
	rw.Header().Set("Content-Type", "text/event-stream")
	flusher := http.NewResponseController(rw)
	for err := flusher.Flush(); err == nil; err = flusher.Flush() {
		select {
		case text := <-c:
			fmt.Fprintf(rw, "data: %s\n\n", text)
		case <-r.Context().Done():
			return
		case <-httpkeepalive.Ending(r): // the server stops
			return
		}
	}
}
