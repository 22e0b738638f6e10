package httpcall_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/callback"
	"github.com/heartwheel-go/heartwheel/timeout/callback/httpcall"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// The target checks the signature. It also checks the key, so it does the same work only once.
func Example() {
	secret, err := httpcall.ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		panic(err)
	}
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, engine.MaxPayload))
		if err != nil || httpcall.Verify(r.Header, body, time.Now(), 5*time.Minute, secret) != nil {
			http.Error(w, "who are you?", http.StatusForbidden)
			return
		}
		task, err := callback.Parse(r.Header.Get)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		fmt.Printf("%s attempt %d: %s\n", task.Key, task.Attempt, body)
	}))
	defer target.Close()

	calls, err := httpcall.New(httpcall.Config{
		Secrets: [][]byte{secret},
		Allow:   []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, // loopback is refused otherwise
	})
	if err != nil {
		panic(err)
	}
	defer calls.Close()

	// A center does this, with timeout.Config{Callers: map[string]timeout.Caller{httpcall.Kind: calls}}.
	task := timeout.Task{Topic: "orders", ID: "4711", Version: 12, Attempts: 1, Payload: []byte(`{"paid":false}`)}
	err = calls.Call(context.Background(), task, timeout.Callback{Kind: httpcall.Kind, Target: target.URL})
	fmt.Println(err)
	// Output:
	// orders/4711:12 attempt 1: {"paid":false}
	// <nil>
}
