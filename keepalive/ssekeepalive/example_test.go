package ssekeepalive_test

import (
	"fmt"
	"net/http"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive/ssekeepalive"
)

// The handler has no ticker. It may be quiet for hours.
func Example() {
	streams, err := ssekeepalive.New(ssekeepalive.Config{Interval: 15 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer streams.Close()
	events := make(chan string)
	mux := http.NewServeMux()
	mux.Handle("/events", streams.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for http.NewResponseController(w).Flush() == nil {
			select {
			case event := <-events:
				fmt.Fprintf(w, "data: %s\n\n", event)
			case <-r.Context().Done():
				return
			}
		}
	})))
}
