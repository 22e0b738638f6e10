package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"log/slog"
	"math/big"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/heartwheel-go/heartwheel/examples/internal/exampletest"
	"github.com/heartwheel-go/heartwheel/internal/certtest"
)

func TestMain(m *testing.M) { exampletest.Main(m) }

// client is grpc-go's, and counts its connections.
type client struct {
	*grpc.ClientConn
	grpc_health_v1.HealthClient
	dialled atomic.Int32
}

func start(t *testing.T, opts ...grpc.ServerOption) *exampletest.Server {
	return exampletest.Serve(t, func(ctx context.Context, addr string, timeout time.Duration, logger *slog.Logger) error {
		return serve(ctx, addr, timeout, logger, opts...)
	})
}

func dial(t *testing.T, s *exampletest.Server, creds credentials.TransportCredentials) *client {
	c := new(client)
	conn, err := grpc.NewClient("passthrough:///"+s.Addr,
		grpc.WithTransportCredentials(creds),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			c.dialled.Add(1)
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		}))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	c.ClientConn, c.HealthClient = conn, grpc_health_v1.NewHealthClient(conn)
	return c
}

func (c *client) ask(t *testing.T) error {
	ctx, cancel := context.WithTimeout(t.Context(), exampletest.Late)
	defer cancel()
	_, err := c.Check(ctx, new(grpc_health_v1.HealthCheckRequest))
	return err
}

// disconnected waits until there is no connection any more.
func (c *client) disconnected(t *testing.T) func() error {
	return func() error {
		ctx, cancel := context.WithTimeout(t.Context(), exampletest.Late)
		defer cancel()
		if !c.WaitForStateChange(ctx, connectivity.Ready) {
			return ctx.Err()
		}
		return nil
	}
}

func TestWhoCallsStaysAndWhoIsSilentGoes(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := dial(t, s, insecure.NewCredentials())
	last := exampletest.Talk(t, func() error { return c.ask(t) })
	require.EqualValues(t, 1, c.dialled.Load())
	exampletest.Gone(t, last, c.disconnected(t))
	s.Logs(t, "reason=idle")

	require.NoError(t, c.ask(t), "gRPC connects again when there is a call")
	require.EqualValues(t, 2, c.dialled.Load())
}

func TestACallMayTakeLongerThanTheTimeout(t *testing.T) {
	t.Parallel()
	requireHeld(t, dial(t, start(t), insecure.NewCredentials()))
}

// requireHeld makes a call for three timeouts.
func requireHeld(t *testing.T, c *client) {
	ctx, cancel := context.WithCancel(t.Context())
	watch, err := c.Watch(ctx, new(grpc_health_v1.HealthCheckRequest))
	require.NoError(t, err)
	first, err := watch.Recv()
	require.NoError(t, err)
	require.Equal(t, grpc_health_v1.HealthCheckResponse_SERVING, first.GetStatus())

	more := make(chan error, 1)
	go func() {
		_, err := watch.Recv()
		more <- err
	}()
	select {
	case err := <-more:
		require.FailNow(t, "the stream has ended", "%v", err)
	case <-time.After(3 * exampletest.Timeout):
	}
	require.Equal(t, connectivity.Ready, c.GetState())
	require.EqualValues(t, 1, c.dialled.Load())

	last := time.Now()
	cancel() // the call has ended, and with it the work
	require.Equal(t, codes.Canceled, status.Code(<-more))
	exampletest.Gone(t, last, c.disconnected(t))
}

// Authorization by the client's certificate, as in the documentation of gRPC.
func TestMutualTLSAuthorizes(t *testing.T) {
	t.Parallel()
	certificate, roots := certtest.New(t)
	alice, mallory := named(t, "alice"), named(t, "mallory")
	clients := x509.NewCertPool()
	clients.AddCert(alice.Leaf)
	clients.AddCert(mallory.Leaf)
	s := start(t,
		grpc.Creds(credentials.NewTLS(&tls.Config{
			Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12,
			ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients,
		})),
		grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			if err := onlyAlice(ctx); err != nil {
				return nil, err
			}
			return next(ctx, req)
		}))
	of := func(own tls.Certificate) *client {
		return dial(t, s, credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{own}, RootCAs: roots, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}))
	}
	require.Equal(t, codes.PermissionDenied, status.Code(of(mallory).ask(t)))
	c := of(alice)
	require.NoError(t, c.ask(t))
	requireHeld(t, c)
}

func onlyAlice(ctx context.Context) error {
	p, _ := peer.FromContext(ctx)
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if _, tcp := p.Addr.(*net.TCPAddr); !tcp {
		return status.Errorf(codes.Internal, "the address is a %T", p.Addr)
	}
	if !ok || len(info.State.VerifiedChains) == 0 || info.State.VerifiedChains[0][0].Subject.CommonName != "alice" {
		return status.Errorf(codes.PermissionDenied, "%T", p.AuthInfo)
	}
	return nil
}

// named returns a certificate for a client.
func named(t *testing.T, name string) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func TestAClosedConnectionIsForgotten(t *testing.T) {
	t.Parallel()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer inner.Close()
	conns := new(connections)
	ln := listener{inner, conns}
	there, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	defer there.Close()
	here, err := ln.Accept()
	require.NoError(t, err)
	_, found := conns.byAddr.Load(here.RemoteAddr())
	require.True(t, found)
	require.NoError(t, here.Close())
	conns.byAddr.Range(func(addr, _ any) bool {
		require.FailNow(t, "not forgotten", "%v", addr)
		return false
	})
}

func TestWhoNeverSpeaksGoes(t *testing.T) {
	t.Parallel()
	s := start(t)
	last := time.Now()
	c, err := net.Dial("tcp", s.Addr)
	require.NoError(t, err)
	defer c.Close()
	exampletest.Gone(t, last, exampletest.EOF(c))
	s.Logs(t, "reason=idle")
}

// A call goes on while the server stops, but a client that never says anything is closed before.
func TestAShutdownWaitsForCallsAndNotForNewcomers(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var silent net.Conn
	ended := make(chan error, 1)
	t.Run("server", func(st *testing.T) {
		s := exampletest.Serve(st, func(ctx context.Context, addr string, _ time.Duration, logger *slog.Logger) error {
			return serve(ctx, addr, exampletest.Late, logger) // no timeout ends the silent one
		})
		var err error
		silent, err = net.Dial("tcp", s.Addr)
		require.NoError(st, err)
		t.Cleanup(func() { silent.Close() })
		watch, err := dial(t, s, insecure.NewCredentials()).Watch(ctx, new(grpc_health_v1.HealthCheckRequest))
		require.NoError(st, err)
		_, err = watch.Recv()
		require.NoError(st, err)
		go func() {
			err := exampletest.EOF(silent)()
			time.AfterFunc(exampletest.Beat, cancel) // a drain of all would have ended the call by then
			for err == nil {
				_, err = watch.Recv()
			}
			ended <- err
		}()
	})
	require.Equal(t, codes.Canceled, status.Code(<-ended))
}

func TestInterruptWhileItStarts(t *testing.T) {
	t.Parallel()
	exampletest.Interrupt(t, func(ctx context.Context, addr string, timeout time.Duration, logger *slog.Logger) error {
		return serve(ctx, addr, timeout, logger)
	})
}
