// Command rpc is a gRPC server for clients with a certificate. Only calls by the allowed ones are life.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log"
	"net"
	"os"
	"os/signal"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	grpckeepalive "google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	cert, err := tls.LoadX509KeyPair("cert.pem", "key.pem")
	if err != nil {
		log.Fatal(err)
	}
	pem, err := os.ReadFile("clients.pem")
	if err != nil {
		log.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(pem)
	ln, err := net.Listen("tcp", "127.0.0.1:8443")
	if err != nil {
		log.Fatal(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{cert}, ClientCAs: clients}
	if err := Serve(ctx, ln, config, time.Minute, "ann"); err != nil {
		log.Fatal(err)
	}
}

// Serve answers the clients named allowed until ctx is done.
func Serve(ctx context.Context, ln net.Listener, config *tls.Config, timeout time.Duration, allowed string) error {
	k, err := keepalive.New(keepalive.Config{
		Activity: keepalive.ActivityManual,
		Timeout:  timeout,
		OnClose: func(conn any, reason keepalive.Reason) {
			log.Println(keepalive.Of(conn).Value(), "has left:", reason)
		},
	})
	if err != nil {
		return err
	}
	defer k.Close()
	config = config.Clone()
	config.ClientAuth = tls.RequireAndVerifyClientCert
	srv := grpc.NewServer(
		grpc.Creds(credentials.NewTLS(config)),
		grpc.KeepaliveParams(grpckeepalive.ServerParameters{Time: timeout}), // finds clients that vanish in a call
		grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			release, err := authorize(ctx, allowed)
			if err != nil {
				return nil, err
			}
			defer release()
			return handle(ctx, req)
		}),
		grpc.StreamInterceptor(func(s any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
			release, err := authorize(stream.Context(), allowed)
			if err != nil {
				return err
			}
			defer release()
			return handle(s, stream)
		}),
	)
	grpc_health_v1.RegisterHealthServer(srv, health.NewServer())
	defer context.AfterFunc(ctx, srv.Stop)()
	if err := srv.Serve(listener{k.Listener(ln)}); !errors.Is(err, grpc.ErrServerStopped) { // Stop came first
		return err
	}
	return nil
}

// authorize holds the connection of an allowed client during its call.
func authorize(ctx context.Context, allowed string) (release func(), err error) {
	p, _ := peer.FromContext(ctx)
	guard := p.Addr.(address).guard
	name := p.AuthInfo.(credentials.TLSInfo).State.VerifiedChains[0][0].Subject.CommonName
	guard.SetValue(name)
	if name != allowed {
		return nil, status.Errorf(codes.PermissionDenied, "%s may not", name)
	}
	return guard.Hold(), nil
}

// listener lets an interceptor find the connection of a call: gRPC tells no more than its address.
type listener struct{ net.Listener }

func (ln listener) Accept() (net.Conn, error) {
	c, err := ln.Listener.Accept()
	return conn{c}, err
}

type conn struct{ net.Conn }

func (c conn) RemoteAddr() net.Addr { return address{c.Conn.RemoteAddr(), keepalive.Of(c.Conn)} }

type address struct {
	net.Addr
	guard *keepalive.Guard
}
