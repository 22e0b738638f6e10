// Command mqtt is an MQTT broker: mochi-mqtt on guarded connections.
//
// Whole packets are life. Each client asks for its own timeout: one and a half times the keep
// alive of its CONNECT, as the standard says, within bounds. A client of MQTT 5 is told the
// bound, and why it is closed.
//
// mochi has a deadline of its own for that, set again with each packet. It stays in force on
// listeners without a Keeper, such as -websocket: their clients connect as ever. Here a Keeper
// adds
//
//   - a timeout for clients without a keep alive, and an hour at most for the others. mochi
//     counts the seconds in 16 bits: 50000 become 9464, and not 75000,
//   - DISCONNECT with its reason, for clients of MQTT 5,
//   - limits, drain and figures as for your other servers,
//   - a pause of this process that kills nobody: waiting packets are read first.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"log"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/hooks/auth"
	"github.com/mochi-mqtt/server/v2/listeners"
	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:1883", "address to listen on, `host:port`; port 0 is any free one")
	timeout := flag.Duration("timeout", 30*time.Second, "how long a connection may be silent")
	websocket := flag.String("websocket", "", "address for MQTT over WebSocket, without a Keeper (empty: none)")
	flag.Parse()
	switch {
	case *timeout <= 0:
		log.Fatalf("-timeout %v: must be positive", *timeout)
	case flag.NArg() > 0:
		log.Fatalf("unexpected argument %q: there are only flags", flag.Arg(0))
	}
	var others []listeners.Listener
	if *websocket != "" {
		others = append(others, listeners.NewWebsocket(listeners.Config{ID: "websocket", Address: *websocket}))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := serve(ctx, *addr, *timeout, slog.Default(), others...); err != nil {
		log.Fatal(err)
	}
}

// serve guards the clients of addr. Those of the other listeners have no Keeper.
func serve(ctx context.Context, addr string, timeout time.Duration, logger *slog.Logger, others ...listeners.Listener) error {
	h := new(hook)
	k, err := keepalive.New(keepalive.Config{
		Timeout:      timeout, // for clients without a keep alive
		FirstMessage: min(5*time.Second, timeout),
		Interval:     keepalive.Interval{Max: time.Hour},
		Activity:     keepalive.ActivityManual,
		Room:         keepalive.Room{MaxPerKey: 1000},
		Closing:      keepalive.Closing{Farewell: h.farewell},
		OnClose: func(conn any, reason keepalive.Reason) {
			logger.Info("closed", "remote", conn.(net.Conn).RemoteAddr(), "reason", reason.String())
		},
		Logger: logger,
	})
	if err != nil {
		return err
	}
	defer k.Close()
	h.keeper = k

	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	broker := mqtt.New(&mqtt.Options{Logger: logger})
	err = errors.Join(
		broker.AddHook(new(auth.AllowHook), nil), // everybody may do all: an example
		broker.AddHook(h, nil),
		broker.AddListener(listeners.NewNet("guarded", k.Listener(ln))),
	)
	for _, other := range others {
		err = errors.Join(err, broker.AddListener(other))
	}
	if err = errors.Join(err, broker.Serve()); err != nil { // does not wait
		return errors.Join(err, ln.Close())
	}
	logger.Info("listening", "addr", ln.Addr())
	<-ctx.Done()
	patience, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(k.Drain(patience, 0), broker.Close())
}

// hook gets the broker's events.
type hook struct {
	mqtt.HookBase
	keeper *keepalive.Keeper
	modern sync.Map // net.Conn of a client with MQTT 5
}

func (h *hook) ID() string { return "heartwheel" }

func (h *hook) Provides(b byte) bool {
	return bytes.IndexByte([]byte{mqtt.OnConnect, mqtt.OnSessionEstablished, mqtt.OnPacketRead, mqtt.OnDisconnect}, b) >= 0
}

// OnConnect gives a client its own timeout.
func (h *hook) OnConnect(cl *mqtt.Client, pk packets.Packet) error {
	guard := keepalive.Of(cl.Net.Conn)
	if guard == nil {
		return nil // of another listener, or inline
	}
	guard.Touch()
	asked := time.Duration(pk.Connect.Keepalive) * time.Second
	inForce, err := guard.SetInterval(asked)
	if err != nil {
		return err // closed meanwhile
	}
	granted := time.Duration(float64(inForce) / h.keeper.Config().Interval.Multiplier).Truncate(time.Second)
	if granted > 0 && granted != asked { // MQTT 5 has a property for it
		cl.State.Keepalive, cl.State.ServerKeepalive = uint16(granted/time.Second), true
	}
	return nil
}

// OnSessionEstablished comes after the CONNACK. From here on the broker sets no deadlines of
// its own for a guarded client. Not before: the CONNACK takes the granted keep alive from the same field, and
// with 0 a client of MQTT 5 would stop its pings.
func (h *hook) OnSessionEstablished(cl *mqtt.Client, _ packets.Packet) {
	if keepalive.Of(cl.Net.Conn) == nil {
		return
	}
	cl.State.Keepalive = 0
	if cl.Properties.ProtocolVersion == 5 {
		h.modern.Store(cl.Net.Conn, nil)
	}
}

func (h *hook) OnPacketRead(cl *mqtt.Client, pk packets.Packet) (packets.Packet, error) {
	keepalive.Touch(cl.Net.Conn)
	return pk, nil
}

func (h *hook) OnDisconnect(cl *mqtt.Client, _ error, _ bool) { h.modern.Delete(cl.Net.Conn) }

// farewell is a DISCONNECT: only MQTT 5 has one from a server. The broker writes whole
// packets, so it comes between two of them. But below TLS there must be no farewell.
func (h *hook) farewell(conn any, reason keepalive.Reason) []byte {
	if _, ok := h.modern.Load(conn); !ok {
		return nil
	}
	why := packets.ErrKeepAliveTimeout
	switch reason {
	case keepalive.ReasonDrain:
		why = packets.ErrServerShuttingDown
	case keepalive.ReasonShed:
		why = packets.ErrUseAnotherServer
	}
	var b bytes.Buffer
	goodbye := packets.Packet{
		FixedHeader:     packets.FixedHeader{Type: packets.Disconnect},
		ProtocolVersion: 5,
		ReasonCode:      why.Code,
	}
	if err := goodbye.DisconnectEncode(&b); err != nil {
		return nil
	}
	return b.Bytes()
}
