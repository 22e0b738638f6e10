// Command sessions is a session cache over HTTP. It was written for go-zero's collection.TimingWheel.
package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/heartwheel-go/heartwheel/wheel" // was: collection of go-zero
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ln, err := net.Listen("tcp", "127.0.0.1:8080")
	if err != nil {
		log.Fatal(err)
	}
	if err := Serve(ctx, ln, 20*time.Minute); err != nil {
		log.Fatal(err)
	}
}

type cache struct {
	mu      sync.Mutex
	users   map[string]string // by session
	timers  *wheel.TimingWheel[string, string]
	timeout time.Duration
}

// Serve keeps sessions until ctx is done. A session ends after a timeout without a request.
func Serve(ctx context.Context, ln net.Listener, timeout time.Duration) error {
	c := &cache{users: map[string]string{}, timeout: timeout}
	timers, err := wheel.NewTimingWheel(timeout/20, 300, func(session, user string) {
		c.forget(session)
		log.Println(user, "has left: silent")
	})
	if err != nil {
		return err
	}
	defer timers.Stop()
	c.timers = timers
	mux := http.NewServeMux()
	mux.HandleFunc("POST /login/{user}", c.login)
	mux.HandleFunc("GET /user/{session}", c.user)
	mux.HandleFunc("POST /logout/{session}", c.logout)
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	down := make(chan error, 1)
	defer context.AfterFunc(ctx, func() { down <- srv.Shutdown(context.Background()) })()
	if err := srv.Serve(ln); ctx.Err() == nil {
		return err
	}
	if err := <-down; err != nil {
		return err
	}
	return timers.Drain(func(_, user string) { log.Println(user, "has left: drained") })
}

func (c *cache) login(w http.ResponseWriter, r *http.Request) {
	session, user := rand.Text(), r.PathValue("user")
	c.mu.Lock()
	c.users[session] = user
	c.mu.Unlock()
	if err := c.timers.SetTimer(session, user, c.timeout); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprint(w, session)
}

func (c *cache) user(w http.ResponseWriter, r *http.Request) {
	session := r.PathValue("session")
	if err := c.timers.MoveTimer(session, c.timeout); err != nil { // with go-zero always nil
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprint(w, c.users[session])
}

func (c *cache) logout(_ http.ResponseWriter, r *http.Request) {
	if session := r.PathValue("session"); c.timers.RemoveTimer(session) == nil {
		c.forget(session)
	}
}

func (c *cache) forget(session string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.users, session)
}
