package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsutil"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/httpkeepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/wskeepalive"
)

// The code of docs/websocket.md.
func Example() {
	handler := func(w http.ResponseWriter, r *http.Request) {
		w = wskeepalive.Hijacker(httpkeepalive.Guard(r), w)
		conn, _, _, err := ws.UpgradeHTTP(r, w)
		if err != nil {
			return // the connection is not guarded, or this is no handshake
		}
		defer conn.Close()
		for {
			message, err := wsutil.ReadClientText(conn)
			if err != nil {
				return // a keepalive.Reason, if the Keeper has closed it
			}
			slog.Info("got a message", "bytes", len(message))
		}
	}
	http.HandleFunc("/", handler)
}

// A server that accepts the handshake, and then hangs.
func Example_client() {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return
	}
	defer ln.Close()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		if conn, err := ln.Accept(); err == nil {
			defer conn.Close()
			_, _ = ws.Upgrade(conn)
			<-ended
		}
	}()

	k, err := keepalive.New(keepalive.Config{Timeout: time.Second})
	if err != nil {
		return
	}
	defer k.Close()
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr) // or that of a tls.Dialer
		if err != nil {
			return nil, err
		}
		return wskeepalive.Client(k.Conn(conn))
	}
	conn, _, _, err := ws.Dialer{NetDial: dial}.Dial(context.Background(), "ws://"+ln.Addr().String())
	if err != nil {
		return
	}
	defer conn.Close()
	_, err = wsutil.ReadServerText(conn)
	fmt.Println(errors.Is(err, keepalive.ReasonNoAnswer))
	// Output: true
}
