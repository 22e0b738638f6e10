package debughttp_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/heartwheel-go/heartwheel/debughttp"
	"github.com/heartwheel-go/heartwheel/keepalive"
)

// The page on an address of loopback, beside the server.
func Example() {
	k, err := keepalive.New(keepalive.Config{Timeout: 30 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer k.Close()

	page, err := debughttp.New(k, debughttp.Config{Name: "gateway"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer page.Close()

	mux := http.NewServeMux()
	mux.Handle("/debug/wheel", page)
	admin := &http.Server{Addr: "127.0.0.1:9001", Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = admin.ListenAndServe() }()
	defer admin.Close()
}

// For colleagues, behind a login, and without addresses.
func ExampleConfig_remote() {
	k, err := keepalive.New(keepalive.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer k.Close()

	page, err := debughttp.New(k, debughttp.Config{AllowRemote: true, HideAddrs: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer page.Close()

	onlyAdmins := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, password, ok := r.BasicAuth(); !ok || password != "secret" {
				http.Error(w, "who are you?", http.StatusUnauthorized)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
	mux := http.NewServeMux()
	mux.Handle("/debug/wheel", onlyAdmins(page))

	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest("GET", "/debug/wheel", nil))
	fmt.Println(w.Code)
	// Output: 401
}

// Each connection with the name of its client, and a token to close one.
func ExampleConfig_label() {
	k, err := keepalive.New(keepalive.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer k.Close()

	page, err := debughttp.New(k, debughttp.Config{
		Label: func(conn any) string {
			id, _ := keepalive.Of(conn).Value().(string) // see SetValue
			return id
		},
		CloseToken: os.Getenv("CLOSE_TOKEN"), // 16 bytes at least
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer page.Close()
}

// The other pages of a program are safe from rebound names, too.
func ExampleCheckHost() {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	handler, err := debughttp.CheckHost(mux, debughttp.Hosts{Names: []string{"gateway.example"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, host := range []string{"10.0.0.7:9001", "gateway.example", "evil.example"} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", "http://"+host+"/healthz", nil))
		fmt.Println(w.Code, host)
	}
	// Output:
	// 200 10.0.0.7:9001
	// 200 gateway.example
	// 403 evil.example
}
