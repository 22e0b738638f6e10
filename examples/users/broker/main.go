// Command broker is an MQTT broker with two listeners. Devices are guarded, services of our own are not.
package main

import (
	"context"
	"log"
	"net"
	"os"
	"os/signal"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/hooks/auth"
	"github.com/mochi-mqtt/server/v2/listeners"
	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	devices, err := net.Listen("tcp", ":1883")
	if err != nil {
		log.Fatal(err)
	}
	services, err := net.Listen("tcp", "127.0.0.1:1884")
	if err != nil {
		log.Fatal(err)
	}
	if err := Serve(ctx, devices, services, time.Minute); err != nil {
		log.Fatal(err)
	}
}

// Serve runs the broker until ctx is done. timeout is for devices without a keep alive in their CONNECT.
func Serve(ctx context.Context, devices, services net.Listener, timeout time.Duration) error {
	k, err := keepalive.New(keepalive.Config{
		Activity:     keepalive.ActivityManual, // whole packets
		Timeout:      timeout,
		FirstMessage: 5 * time.Second,
	})
	if err != nil {
		return err
	}
	defer k.Close()
	broker := mqtt.New(nil)
	if err := broker.AddHook(new(auth.AllowHook), nil); err != nil {
		return err
	}
	if err := broker.AddHook(new(beats), nil); err != nil {
		return err
	}
	if err := broker.AddListener(listeners.NewNet("devices", k.Listener(devices))); err != nil {
		return err
	}
	if err := broker.AddListener(listeners.NewNet("services", services)); err != nil {
		return err
	}
	if err := broker.Serve(); err != nil {
		return err
	}
	<-ctx.Done()
	return broker.Close()
}

// beats are the signs of life. On the other listener, a touch does nothing.
type beats struct{ mqtt.HookBase }

func (*beats) ID() string { return "beats" }

func (*beats) Provides(b byte) bool {
	return b == mqtt.OnConnect || b == mqtt.OnPacketRead || b == mqtt.OnDisconnect
}

// OnConnect grants each keep alive as asked, so the CONNACK has none to tell, and mochi's own deadline can go before
// it. With bounds, copy ../../mqtt: it clears Keepalive behind the CONNACK.
func (*beats) OnConnect(cl *mqtt.Client, pk packets.Packet) error {
	if guard := keepalive.Of(cl.Net.Conn); guard.Touch() {
		cl.State.Keepalive = 0 // or mochi's own deadline comes first
		_, err := guard.SetInterval(time.Duration(pk.Connect.Keepalive) * time.Second)
		return err
	}
	return nil
}

func (*beats) OnPacketRead(cl *mqtt.Client, pk packets.Packet) (packets.Packet, error) {
	keepalive.Touch(cl.Net.Conn)
	return pk, nil
}

func (*beats) OnDisconnect(cl *mqtt.Client, err error, _ bool) { log.Println(cl.ID, "has left:", err) }
