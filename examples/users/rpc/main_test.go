package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"log"
	"math/big"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/heartwheel-go/heartwheel/internal/logtest"
	"github.com/heartwheel-go/heartwheel/internal/testmain"
)

const timeout = 2 * time.Second // such as a client keeps on a busy machine

func TestMain(m *testing.M) { testmain.Run(m) }

func TestOnlyAllowedCallsAreLife(t *testing.T) {
	var logged logtest.Log
	log.SetOutput(&logged)
	defer log.SetOutput(os.Stderr)
	ca := authority(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(ctx, ln, &tls.Config{Certificates: []tls.Certificate{ca.issue(t, "server")}, ClientCAs: ca.pool}, timeout, "ann")
	}()

	patience, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	addr := ln.Addr().String()
	ann, bob := dial(t, addr, ca, "ann"), dial(t, addr, ca, "bob")
	began := time.Now()
	config := ca.client(t, "ann")
	config.NextProtos = []string{"h2"}
	silent, err := tls.Dial("tcp", addr, config)
	require.NoError(t, err)
	defer silent.Close()
	watch, err := grpc_health_v1.NewHealthClient(ann).Watch(patience, new(grpc_health_v1.HealthCheckRequest))
	require.NoError(t, err)
	_, err = watch.Recv()
	require.NoError(t, err)

	for !strings.Contains(logged.String(), "bob has left: keepalive: idle timeout") { // he calls on and on
		_, err = grpc_health_v1.NewHealthClient(bob).Check(patience, new(grpc_health_v1.HealthCheckRequest))
		require.Contains(t, []codes.Code{codes.PermissionDenied, codes.Unavailable}, status.Code(err))
		time.Sleep(timeout / 50)
	}
	require.GreaterOrEqual(t, time.Since(began), timeout)
	_, _ = io.Copy(io.Discard, silent) // until the end
	logged.Await(t, "<nil> has left: keepalive: idle timeout")
	time.Sleep(time.Until(began.Add(3 * timeout)))
	require.Equal(t, connectivity.Ready, ann.GetState(), "a call is held, however silent")

	stop()
	require.NoError(t, <-ended)
	logged.Await(t, "ann has left: keepalive: closed\n") // by Stop
}

func dial(t *testing.T, addr string, ca *ca, name string) *grpc.ClientConn {
	cc, err := grpc.NewClient(addr, grpc.WithTransportCredentials(credentials.NewTLS(ca.client(t, name))))
	require.NoError(t, err)
	t.Cleanup(func() { cc.Close() })
	return cc
}

type ca struct {
	pool *x509.CertPool
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func authority(t *testing.T) *ca {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &ca{pool, cert, key}
}

func (ca *ca) issue(t *testing.T, name string) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour),
		Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, key.Public(), ca.key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func (ca *ca) client(t *testing.T, name string) *tls.Config {
	return &tls.Config{RootCAs: ca.pool, Certificates: []tls.Certificate{ca.issue(t, name)}}
}

func TestStoppedBeforeItServes(t *testing.T) {
	ca := authority(t)
	config := &tls.Config{Certificates: []tls.Certificate{ca.issue(t, "server")}, ClientCAs: ca.pool}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	for range 20 {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		require.NoError(t, Serve(ctx, ln, config, timeout, "ann"))
	}
}
