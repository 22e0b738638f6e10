package main

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/coder/websocket"

	"github.com/heartwheel-go/heartwheel/keepalive/httpkeepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/wskeepalive"
)

// The code of docs/websocket.md.
func Example() {
	handler := func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer ws.CloseNow()
		guard := httpkeepalive.Guard(r)
		ctx := guard.Context() // its cause will be the keepalive.Reason
		if err := wskeepalive.Coder(guard, ws); err != nil {
			return
		}
		for {
			_, message, err := ws.Read(context.Background())
			if err != nil {
				slog.Info("it has left", "error", err, "reason", context.Cause(ctx))
				return
			}
			guard.Touch()
			slog.Info("got a message", "bytes", len(message))
		}
	}
	http.HandleFunc("/", handler)
}
