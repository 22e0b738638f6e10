// Command mcp is a server of the Model Context Protocol over streamable HTTP, with the official SDK. A tool may take its
// time, and a client may wait for notifications all day: their event streams get comments meanwhile, so that no proxy
// closes them.
//
// The SDK's own KeepAlive asks each session with a goroutine and a ticker, and its client has to answer. Comments need
// neither.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/httpkeepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/ssekeepalive"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8091", "address to listen on, `host:port`; port 0 is any free one")
	timeout := flag.Duration("timeout", 30*time.Second, "how long a connection may be silent; a quarter of it is how long a stream may be quiet")
	flag.Parse()
	switch {
	case *timeout <= 0:
		log.Fatalf("-timeout %v: must be positive", *timeout)
	case flag.NArg() > 0:
		log.Fatalf("unexpected argument %q: there are only flags", flag.Arg(0))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := serve(ctx, *addr, *timeout, slog.Default()); err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context, addr string, timeout time.Duration, logger *slog.Logger) error {
	k, err := keepalive.New(keepalive.Config{
		Timeout: timeout,
		OnClose: func(conn any, reason keepalive.Reason) {
			logger.Info("closed", "remote", conn.(net.Conn).RemoteAddr(), "reason", reason.String())
		},
		Logger: logger,
	})
	if err != nil {
		return err
	}
	defer k.Close()
	streams, err := ssekeepalive.New(ssekeepalive.Config{Interval: timeout / 4, Logger: logger})
	if err != nil {
		return err
	}
	defer streams.Close()

	tools := newTools()
	srv := &http.Server{
		Handler:           streams.Wrap(handler(tools)),
		ReadHeaderTimeout: 5 * time.Second,
		WriteTimeout:      10 * time.Second, // not for event streams
		HTTP2:             &http.HTTP2Config{WriteByteTimeout: 10 * time.Second},
	}
	httpkeepalive.Wrap(srv, k)
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	logger.Info("listening", "addr", ln.Addr())

	stopped := make(chan error, 1)
	context.AfterFunc(ctx, func() { stopped <- stop(srv, k, tools) })
	if err := srv.Serve(k.Listener(ln)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}

// stop ends the sessions, and with them their streams, once their tools are done.
func stop(srv *http.Server, k *keepalive.Keeper, tools *mcp.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for session := range tools.Sessions() {
		go session.Close()
	}
	return httpkeepalive.Shutdown(ctx, srv, k)
}

// handler keeps events for clients that have lost a stream. So the answer to a call begins with an event at once. Without
// that, its header would wait for the end of the tool, and before its header a stream can have no comments.
func handler(tools *mcp.Server) http.Handler {
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return tools }, &mcp.StreamableHTTPOptions{
		EventStore: mcp.NewMemoryEventStore(nil),
	})
}

type (
	waitFor struct {
		For string `json:"for" jsonschema:"how long, such as 45s"`
	}
	note struct {
		Name string `json:"name"`
	}
)

// newTools returns a server with two tools. One is quiet for a long time. The other has something to tell all clients.
func newTools() *mcp.Server {
	tools := mcp.NewServer(&mcp.Implementation{Name: "heartwheel", Version: "v0"}, nil)
	mcp.AddTool(tools, &mcp.Tool{Name: "wait", Description: "waits"},
		func(ctx context.Context, _ *mcp.CallToolRequest, args waitFor) (*mcp.CallToolResult, any, error) {
			d, err := time.ParseDuration(args.For)
			if err != nil || d < 0 || d > time.Hour {
				return nil, nil, fmt.Errorf("for=%q: must be a duration of up to 1h, such as 45s", args.For)
			}
			select {
			case <-time.After(d):
				return text("waited for " + d.String()), nil, nil
			case <-ctx.Done():
				return nil, nil, ctx.Err()
			}
		})
	mcp.AddTool(tools, &mcp.Tool{Name: "keep", Description: "keeps a note, and tells all clients"},
		func(_ context.Context, _ *mcp.CallToolRequest, args note) (*mcp.CallToolResult, any, error) {
			tools.AddResource(&mcp.Resource{Name: args.Name, URI: "note:///" + args.Name},
				func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
					return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: args.Name}}}, nil
				})
			return text("kept " + args.Name), nil, nil
		})
	return tools
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}
