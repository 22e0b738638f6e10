package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"
	"github.com/eclipse/paho.golang/paho/log"
	mqtt3 "github.com/eclipse/paho.mqtt.golang"
	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/listeners"
	"github.com/mochi-mqtt/server/v2/packets"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/examples/internal/exampletest"
	"github.com/heartwheel-go/heartwheel/internal/port"
)

func TestMain(m *testing.M) { exampletest.Main(m) }

func start(t *testing.T, others ...listeners.Listener) *exampletest.Server {
	return exampletest.Serve(t, func(ctx context.Context, addr string, timeout time.Duration, logger *slog.Logger) error {
		return serve(ctx, addr, timeout, logger, others...)
	})
}

// client is paho's for MQTT 5.
type client struct {
	*paho.Client
	granted *uint16   // the server's keep alive, if it wants another one
	ended   chan byte // the reason of the server's DISCONNECT
	broken  chan error
}

// mute sends no pings, like a hanging program.
type mute struct{}

func (mute) Run(ctx context.Context, _ net.Conn, _ uint16) error { <-ctx.Done(); return nil }
func (mute) PacketSent()                                         {}
func (mute) PacketReceived()                                     {}
func (mute) PingResp()                                           {}
func (mute) SetDebug(log.Logger)                                 {}

func dial(t *testing.T, addr string, keepAlive uint16, pings paho.Pinger) *client {
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	c := &client{ended: make(chan byte, 1), broken: make(chan error, 10)}
	c.Client = paho.NewClient(paho.ClientConfig{
		Conn:               conn,
		PingHandler:        pings,
		OnServerDisconnect: func(d *paho.Disconnect) { c.ended <- d.ReasonCode },
		OnClientError:      func(err error) { c.broken <- err },
	})
	ctx, cancel := context.WithTimeout(context.Background(), exampletest.Late)
	defer cancel()
	ack, err := c.Connect(ctx, &paho.Connect{ClientID: conn.LocalAddr().String(), KeepAlive: keepAlive, CleanStart: true})
	require.NoError(t, err)
	c.granted = ack.Properties.ServerKeepAlive
	return c
}

// goodbye waits for the server's DISCONNECT. The client may tell of the end first.
func (c *client) goodbye(want byte) func() error {
	return func() error {
		select {
		case reason := <-c.ended:
			if reason != want {
				return fmt.Errorf("reason %#x", reason)
			}
			return nil
		case <-time.After(exampletest.Late):
			return fmt.Errorf("closed without a word: %w", <-c.broken)
		}
	}
}

func TestWhoPublishesStaysAndWhoIsSilentGoes(t *testing.T) {
	t.Parallel()
	s := start(t)
	lost := make(chan error, 1)
	c := mqtt3.NewClient(mqtt3.NewClientOptions().AddBroker("tcp://" + s.Addr).
		SetProtocolVersion(4).SetKeepAlive(0).SetAutoReconnect(false).
		SetConnectionLostHandler(func(_ mqtt3.Client, err error) { lost <- err }))
	connected := c.Connect()
	require.True(t, connected.WaitTimeout(exampletest.Late))
	require.NoError(t, connected.Error())
	defer c.Disconnect(0)

	last := exampletest.Talk(t, func() error {
		sent := c.Publish("hello", 1, false, "world")
		require.True(t, sent.WaitTimeout(exampletest.Late))
		return sent.Error()
	})
	exampletest.Gone(t, last, func() error { <-lost; return nil })
	s.Logs(t, "reason=idle")
}

func TestAClientHasTheTimeoutThatItAsksFor(t *testing.T) {
	t.Parallel()
	const keepAlive = 3 // seconds: 4.5 s, and not the timeout of clients without a keep alive
	s := start(t)
	pinging := dial(t, s.Addr, keepAlive, nil)

	last := time.Now()
	silent := dial(t, s.Addr, keepAlive, mute{})
	exampletest.Gone(t, last, silent.goodbye(0x8D)) // keep alive timeout
	require.GreaterOrEqual(t, time.Since(last), 4500*time.Millisecond)
	require.Nil(t, silent.granted)
	s.Logs(t, "reason=idle")

	select {
	case reason := <-pinging.ended:
		require.FailNow(t, "closed", "although it pings: %#x", reason)
	case err := <-pinging.broken:
		require.FailNow(t, "closed", "although it pings: %v", err)
	case <-time.After(2 * time.Second):
	}
	require.NoError(t, pinging.Disconnect(new(paho.Disconnect)))
}

func TestAClientIsToldWhatItCanHave(t *testing.T) {
	t.Parallel()
	s := start(t)
	for asked, want := range map[uint16]uint16{
		2400:  0, // the requested one
		2401:  2400,
		50000: 2400,
		65535: 2400,
	} {
		c := dial(t, s.Addr, asked, nil)
		if want == 0 {
			require.Nil(t, c.granted)
		} else {
			require.Equal(t, &want, c.granted)
		}
		time.Sleep(2 * exampletest.Beat)
		require.NoError(t, c.Disconnect(new(paho.Disconnect)))
	}
}

func TestWhoNeverConnectsGoes(t *testing.T) {
	t.Parallel()
	s := start(t)
	last := time.Now()
	c, err := net.Dial("tcp", s.Addr)
	require.NoError(t, err)
	defer c.Close()
	exampletest.Trickle(t, c, "\x10\xff\x7f") // a CONNECT of 16 KiB
	exampletest.Gone(t, last, exampletest.EndOrReset(c))
}

func TestClientsOfOtherListenersComeInAndKeepTheBrokersDeadline(t *testing.T) {
	t.Parallel()
	free, err := port.Free()
	require.NoError(t, err)
	web := net.JoinHostPort("127.0.0.1", free)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := start(t, listeners.NewNet("unguarded", ln), listeners.NewWebsocket(listeners.Config{ID: "websocket", Address: web}))

	const keepAlive = 2 // seconds: mochi's own deadline is 3
	last := time.Now()
	silent := dial(t, ln.Addr().String(), keepAlive, mute{})

	guarded := mqtt3.NewClient(mqtt3.NewClientOptions().AddBroker("tcp://" + s.Addr))
	overWeb := mqtt3.NewClient(mqtt3.NewClientOptions().AddBroker("ws://" + web).SetConnectRetry(true).SetConnectRetryInterval(exampletest.Beat))
	heard := make(chan mqtt3.Message, 1)
	for _, do := range []func() mqtt3.Token{
		guarded.Connect, overWeb.Connect,
		func() mqtt3.Token {
			return guarded.Subscribe("news", 1, func(_ mqtt3.Client, m mqtt3.Message) { heard <- m })
		},
		func() mqtt3.Token { return overWeb.Publish("news", 1, false, "hello") },
	} {
		done := do()
		require.True(t, done.WaitTimeout(exampletest.Late))
		require.NoError(t, done.Error())
	}
	defer guarded.Disconnect(0)
	defer overWeb.Disconnect(0)
	require.Equal(t, "hello", string((<-heard).Payload()))

	exampletest.Gone(t, last, func() error { <-silent.broken; return nil })
	require.GreaterOrEqual(t, time.Since(last), 3*time.Second)
}

func TestAnInlineClientHasNoConnection(t *testing.T) {
	t.Parallel()
	broker := mqtt.New(&mqtt.Options{InlineClient: true})
	defer broker.Close()
	h := new(hook)
	require.NoError(t, broker.AddHook(h, nil))
	inline := broker.NewClient(nil, "local", "inline", true)
	require.NoError(t, h.OnConnect(inline, packets.Packet{}))
	h.OnSessionEstablished(inline, packets.Packet{})
	require.NoError(t, broker.Publish("news", []byte("hello"), false, 0))
}

func TestABrokerThatStopsSaysSo(t *testing.T) {
	t.Parallel()
	outer := t // its end closes the connections
	var c *client
	var silent net.Conn
	t.Run("broker", func(t *testing.T) {
		s := start(t)
		var err error
		silent, err = net.Dial("tcp", s.Addr)
		require.NoError(t, err)
		c = dial(outer, s.Addr, 100, mute{})
		_, err = c.Publish(t.Context(), &paho.Publish{Topic: "hello", QoS: 1}) // the session is established when this is answered
		require.NoError(t, err)
	})
	defer silent.Close()
	require.NoError(t, c.goodbye(0x8B)()) // server shutting down
}

func TestInterruptWhileItStarts(t *testing.T) {
	t.Parallel()
	exampletest.Interrupt(t, func(ctx context.Context, addr string, timeout time.Duration, logger *slog.Logger) error {
		return serve(ctx, addr, timeout, logger)
	})
}
