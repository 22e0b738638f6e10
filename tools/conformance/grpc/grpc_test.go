//go:build conformance

// Package grpc runs grpc-go's own interoperability cases with both ends of the connection guarded.
package grpc

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/orca"
	"google.golang.org/grpc/testdata"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/tools/conformance/guard"
)

// cases are those of google.golang.org/grpc/interop/client that need no account anywhere, and no load
// balancer.
var cases = []struct {
	name string
	run  func(ctx context.Context, cc *grpc.ClientConn, tc testgrpc.TestServiceClient)
}{
	{"empty_unary", call(interop.DoEmptyUnaryCall)},
	{"large_unary", call(interop.DoLargeUnaryCall)},
	{"client_streaming", call(interop.DoClientStreaming)},
	{"server_streaming", call(interop.DoServerStreaming)},
	{"ping_pong", call(interop.DoPingPong)},
	{"empty_stream", call(interop.DoEmptyStream)},
	{"timeout_on_sleeping_server", call(interop.DoTimeoutOnSleepingServer)},
	{"cancel_after_begin", call(interop.DoCancelAfterBegin)},
	{"cancel_after_first_response", call(interop.DoCancelAfterFirstResponse)},
	{"custom_metadata", call(interop.DoCustomMetadata)},
	{"status_code_and_message", call(interop.DoStatusCodeAndMessage)},
	{"special_status_message", call(interop.DoSpecialStatusMessage)},
	{"unimplemented_method", func(ctx context.Context, cc *grpc.ClientConn, _ testgrpc.TestServiceClient) {
		interop.DoUnimplementedMethod(ctx, cc)
	}},
	{"unimplemented_service", func(ctx context.Context, cc *grpc.ClientConn, _ testgrpc.TestServiceClient) {
		interop.DoUnimplementedService(ctx, testgrpc.NewUnimplementedServiceClient(cc))
	}},
	{"orca_per_rpc", func(ctx context.Context, _ *grpc.ClientConn, tc testgrpc.TestServiceClient) {
		interop.DoORCAPerRPCTest(ctx, tc)
	}},
	{"rpc_soak", func(ctx context.Context, cc *grpc.ClientConn, _ testgrpc.TestServiceClient) {
		interop.DoSoakTest(ctx, interop.SoakTestConfig{
			RequestSize: 271828, ResponseSize: 314159, PerIterationMaxAcceptableLatency: time.Minute,
			OverallTimeout: time.Minute, ServerAddr: cc.Target(), NumWorkers: 2, Iterations: 10,
			ChannelForTest: func() (*grpc.ClientConn, func()) { return cc, func() {} },
		})
	}},
}

func call(f func(context.Context, testgrpc.TestServiceClient, ...grpc.CallOption)) func(context.Context, *grpc.ClientConn, testgrpc.TestServiceClient) {
	return func(ctx context.Context, _ *grpc.ClientConn, tc testgrpc.TestServiceClient) { f(ctx, tc) }
}

func TestInterop(t *testing.T) {
	grpclog.SetLoggerV2(failing{})
	for _, activity := range guard.Activities {
		for _, secure := range []bool{false, true} {
			cc := connect(t, activity, secure)
			for _, c := range cases {
				t.Run(fmt.Sprintf("%v/tls=%v/%s", activity, secure, c.name), func(t *testing.T) {
					running.Store(t)
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					c.run(ctx, cc, testgrpc.NewTestServiceClient(cc))
				})
			}
		}
	}
}

// connect starts a server, and returns a client of it.
func connect(t *testing.T, activity keepalive.Activity, secure bool) *grpc.ClientConn {
	server, client := insecure.NewCredentials(), insecure.NewCredentials()
	if secure {
		var err error
		if server, err = credentials.NewServerTLSFromFile(testdata.Path("server1.pem"), testdata.Path("server1.key")); err != nil {
			t.Fatal(err)
		}
		if client, err = credentials.NewClientTLSFromFile(testdata.Path("ca.pem"), "x.test.youtube.com"); err != nil {
			t.Fatal(err)
		}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer(grpc.Creds(server), orca.CallMetricsServerOption(nil))
	testgrpc.RegisterTestServiceServer(srv, interop.NewTestServer(interop.NewTestServerOptions{
		MetricsRecorder: orca.NewServerMetricsRecorder(),
	}))
	go func() { _ = srv.Serve(guard.Listener(activity, ln)) }()
	t.Cleanup(srv.Stop)
	cc, err := grpc.NewClient(ln.Addr().String(), grpc.WithTransportCredentials(client),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"test_backend_metrics_load_balancer":{}}]}`), // for orca_per_rpc
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			return guard.Dial(ctx, activity, "tcp", addr)
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cc.Close() })
	return cc
}

// running is the test to be failed by a case. The cases know no testing.T: they end the process.
var running atomic.Pointer[testing.T]

// failing is a logger that fails the running test instead.
type failing struct{}

func (failing) fail(said string) {
	running.Load().Fatal(said)
}

func (f failing) Fatal(args ...any)                 { f.fail(fmt.Sprint(args...)) }
func (f failing) Fatalf(format string, args ...any) { f.fail(fmt.Sprintf(format, args...)) }
func (f failing) Fatalln(args ...any)               { f.fail(fmt.Sprintln(args...)) }

func (failing) Info(...any)             {}
func (failing) Infof(string, ...any)    {}
func (failing) Infoln(...any)           {}
func (failing) Warning(...any)          {}
func (failing) Warningf(string, ...any) {}
func (failing) Warningln(...any)        {}
func (failing) Error(...any)            {}
func (failing) Errorf(string, ...any)   {}
func (failing) Errorln(...any)          {}
func (failing) V(int) bool              { return false }
