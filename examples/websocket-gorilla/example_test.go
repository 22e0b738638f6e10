package main

import (
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/gorilla/websocket"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/httpkeepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/wskeepalive"
)

type session struct{ name string }

// The code of docs/websocket.md.
func Example() {
	var upgrader websocket.Upgrader
	handler := func(w http.ResponseWriter, r *http.Request) {
		ws, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer ws.Close()
		guard := httpkeepalive.Guard(r)
		if err := wskeepalive.Gorilla(guard, ws); err != nil {
			return // the connection is not guarded, or just closed
		}
		guard.SetValue(&session{name: r.FormValue("name")}) // for OnClose
		for {
			_, message, err := ws.ReadMessage()
			if err != nil {
				return // a keepalive.Reason, if the Keeper has closed it
			}
			guard.Touch() // a whole message is life, and saves the next ping
			slog.Info("got a message", "bytes", len(message))
		}
	}

	k, err := keepalive.New(keepalive.Config{
		Timeout: time.Minute, // pings after half of that, see Config.Probe
		Closing: keepalive.Closing{Mode: keepalive.CloseHalf},
		OnClose: func(conn any, reason keepalive.Reason) {
			if s, ok := keepalive.Of(conn).Value().(*session); ok {
				slog.Info("it has left", "name", s.name, "reason", reason.String())
			}
		},
	})
	if err != nil {
		slog.Error("no keeper", "error", err)
		return
	}
	ln, err := net.Listen("tcp", "127.0.0.1:8081")
	if err != nil {
		slog.Error("no listener", "error", err)
		return
	}
	srv := &http.Server{Handler: http.HandlerFunc(handler), ReadHeaderTimeout: 5 * time.Second}
	httpkeepalive.Wrap(srv, k)
	err = srv.ServeTLS(k.Listener(ln), "cert.pem", "key.pem") // or srv.Serve
	slog.Error("stopped", "error", err)
}
