// Command mqtt is an MQTT broker: mochi-mqtt on guarded connections.
//
// Whole packets are life. Each client asks for its own timeout: one and a half times the keep
// alive of its CONNECT, as the standard says, within bounds. A client of MQTT 5 is told the
// bound, and why it is closed.
package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/hooks/auth"
	"github.com/mochi-mqtt/server/v2/listeners"
	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/heartwheel-go/heartwheel/examples/internal/example"
	"github.com/heartwheel-go/heartwheel/keepalive"
)

func main() { example.Main("127.0.0.1:1883", serve) }

func serve(ctx context.Context, args example.Args) error {
	h := &hook{args: args}
	k, err := keepalive.New(keepalive.Config{
		Timeout:      args.Timeout, // for clients without a keep alive
		FirstMessage: min(5*time.Second, args.Timeout),
		Interval:     keepalive.Interval{Max: time.Hour},
		Activity:     keepalive.ActivityManual,
		Room:         keepalive.Room{MaxPerKey: 1000},
		Closing:      keepalive.Closing{Farewell: h.farewell},
		Logger:       args.Log,
	})
	if err != nil {
		return err
	}
	defer k.Close()
	h.keeper = k

	ln, err := net.Listen("tcp", args.Addr)
	if err != nil {
		return err
	}
	broker := mqtt.New(&mqtt.Options{Logger: args.Log})
	err = errors.Join(
		broker.AddHook(new(auth.AllowHook), nil), // everybody may do all: an example
		broker.AddHook(h, nil),
		broker.AddListener(listeners.NewNet("tcp", k.Listener(ln))),
		broker.Serve(), // does not wait
	)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	args.Listening(ln.Addr())
	<-ctx.Done()
	patience, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(k.Drain(patience, 0), broker.Close())
}

// hook gets the broker's events.
type hook struct {
	mqtt.HookBase
	args   example.Args
	keeper *keepalive.Keeper
	modern sync.Map // net.Conn of a client with MQTT 5
}

func (h *hook) ID() string { return "heartwheel" }

func (h *hook) Provides(b byte) bool {
	return bytes.IndexByte([]byte{mqtt.OnConnect, mqtt.OnSessionEstablished, mqtt.OnPacketRead, mqtt.OnDisconnect}, b) >= 0
}

// OnConnect gives a client its own timeout.
func (h *hook) OnConnect(cl *mqtt.Client, pk packets.Packet) error {
	asked := time.Duration(pk.Connect.Keepalive) * time.Second
	keepalive.Touch(cl.Net.Conn)
	inForce, err := keepalive.Of(cl.Net.Conn).SetInterval(asked)
	if err != nil {
		return err
	}
	granted := time.Duration(float64(inForce) / h.keeper.Config().Interval.Multiplier).Truncate(time.Second)
	if granted > 0 && granted != asked { // MQTT 5 has a property for it
		cl.State.Keepalive, cl.State.ServerKeepalive = uint16(granted/time.Second), true
	}
	return nil
}

// OnSessionEstablished comes after the CONNACK. From here on the broker sets no
// deadlines of its own: they are an extra call per packet, and its 1.5 x 50000 s do not
// fit into 16 bits.
func (h *hook) OnSessionEstablished(cl *mqtt.Client, _ packets.Packet) {
	cl.State.Keepalive = 0
	if cl.Properties.ProtocolVersion == 5 {
		h.modern.Store(cl.Net.Conn, nil)
	}
}

func (h *hook) OnPacketRead(cl *mqtt.Client, pk packets.Packet) (packets.Packet, error) {
	keepalive.Touch(cl.Net.Conn)
	return pk, nil
}

func (h *hook) OnDisconnect(cl *mqtt.Client, err error, _ bool) {
	h.modern.Delete(cl.Net.Conn)
	h.args.Closed(cl.Net.Remote, err)
}

// farewell is a DISCONNECT: only MQTT 5 has one from a server. The broker writes whole
// packets, so it comes between two of them. But below TLS there must be no farewell.
func (h *hook) farewell(conn any, reason keepalive.Reason) []byte {
	if _, ok := h.modern.Load(conn); !ok {
		return nil
	}
	why := packets.ErrKeepAliveTimeout
	if reason == keepalive.ReasonDrain {
		why = packets.ErrServerShuttingDown
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
