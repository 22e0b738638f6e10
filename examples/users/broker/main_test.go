package main

import (
	"context"
	"log"
	"net"
	"net/url"
	"os"
	"sync/atomic"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/logtest"
	"github.com/heartwheel-go/heartwheel/internal/testmain"
)

func TestMain(m *testing.M) { testmain.Run(m) }

func TestOnlySilentDevicesLeave(t *testing.T) {
	const timeout = 2 * time.Second // such as a client keeps on a busy machine
	var logged logtest.Log
	log.SetOutput(&logged)
	defer log.SetOutput(os.Stderr)
	devices, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	services, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, devices, services, timeout) }()

	service := connect(t, services, "service", 0)
	readings := make(chan string, 1000)
	wait(t, service.Subscribe("readings", 0, func(_ mqtt.Client, m mqtt.Message) { readings <- string(m.Payload()) }))
	sensor, mute, hung := connect(t, devices, "sensor", 0), connect(t, devices, "mute", 0), connect(t, devices, "hung", 1)
	began := time.Now()
	hung.hang.Store(true)
	for time.Since(began) < 3*timeout {
		wait(t, sensor.Publish("readings", 1, false, "21"))
		time.Sleep(timeout / 10)
	}
	require.GreaterOrEqual(t, (<-mute.ended).Sub(mute.said), timeout)
	require.GreaterOrEqual(t, (<-hung.ended).Sub(hung.said), 3*time.Second/2)
	wait(t, sensor.Publish("readings", 1, false, "last"))
	for text := ""; text != "last"; { // the silent service is still there
		select {
		case text = <-readings:
		case <-time.After(10 * time.Second):
			require.FailNow(t, "the service hears nothing")
		}
	}

	stop()
	require.NoError(t, <-ended)
	for _, name := range []string{"mute", "hung"} {
		logged.Await(t, name+" has left: .*keepalive: idle")
	}
}

type client struct {
	mqtt.Client
	said  time.Time
	hang  atomic.Bool
	ended chan time.Time
}

func connect(t *testing.T, ln net.Listener, name string, beat int) *client {
	c := &client{said: time.Now(), ended: make(chan time.Time, 1)}
	opts := mqtt.NewClientOptions().AddBroker("tcp://" + ln.Addr().String()).SetClientID(name)
	opts.SetAutoReconnect(false).SetKeepAlive(time.Duration(beat) * time.Second).SetPingTimeout(time.Minute)
	opts.SetConnectionLostHandler(func(mqtt.Client, error) { c.ended <- time.Now() })
	opts.SetCustomOpenConnectionFn(func(*url.URL, mqtt.ClientOptions) (net.Conn, error) {
		conn, err := net.Dial("tcp", ln.Addr().String())
		return hanging{conn, &c.hang}, err
	})
	c.Client = mqtt.NewClient(opts)
	wait(t, c.Connect())
	t.Cleanup(func() { c.Disconnect(0) })
	return c
}

func wait(t *testing.T, token mqtt.Token) {
	require.True(t, token.WaitTimeout(10*time.Second))
	require.NoError(t, token.Error())
}

// hanging is a connection of a client that hangs: its packets stay with it.
type hanging struct {
	net.Conn
	hang *atomic.Bool
}

func (c hanging) Write(p []byte) (int, error) {
	if c.hang.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func TestStoppedBeforeItServes(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	stop()
	for range 20 {
		devices, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		services, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		require.NoError(t, Serve(ctx, devices, services, time.Second))
	}
}
