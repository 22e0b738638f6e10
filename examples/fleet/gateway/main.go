// Command gateway is one node of a fleet of gateways: a server of lines. Its clients give their
// names, and all nodes know the sessions of all clients.
//
//	redis-server &
//	gateway -addr 127.0.0.1:9001 &
//	gateway -addr 127.0.0.1:9002 &
//	nc 127.0.0.1 9001
//
// A person can speak its protocol with nc. It is the protocol of package server: PING is
// answered with PONG, and a silent client goes. Before that comes:
//
//	HELLO user-7    WELCOME 1764000000000000 new    user-7 is this connection's, with this epoch
//	                WELCOME ... moved               another connection had it, and is closed
//	                WELCOME ... resumed             its gateway was shut down, and nobody noticed
//	                ERR ...                         no, because of this
//
// WELCOME waits for Redis. So the answer to a line after HELLO may come before it.
//
// Unasked the gateway says, before it closes a connection:
//
//	BYE moved       the same session is at another connection
//	BYE kicked      somebody has kicked it
//	BYE expired     others believed this gateway dead, and have told so
//	BYE lost        Redis did not answer for as long as a lease
//	BYE draining    the gateway is going down: say HELLO to another one
//	BYE no session for 10s
//	                nobody was WELCOME in that time; where nothing was said, it is the server's
//	                BYE first message timeout 10s
//
// It writes the events of sessions to stdout, a line of JSON each:
//
//	{"event":"online","session":"s","epoch":1,"node":"n","kind":"new|moved|resumed|again"}
//	{"event":"offline","session":"s","epoch":1,"reason":"expired","node":"n","last_seen_ms":0,"at_ms":0,"attempt":1}
//	{"event":"end","session":"s","epoch":1,"reason":"moved"}
//	{"event":"stats","sessions":0,"renewals":0,"refused":0,"moved":0,"lost":0,"told":0,"held":0,"failures":0}
//
// Any one node tells an offline, at least once. If nobody reads the lines, events are lost when
// 32 MiB wait, and an offline among them is told again later. Times are in milliseconds since
// 1970.
//
// SIGINT, SIGTERM and SIGHUP end it. It takes no more sessions, and leaves its own to be resumed
// elsewhere. It closes their connections, and then the others. A second signal ends it at once.
// Flags that make no sense end it with exit code 2 and one line.
package main

import (
	"os"

	"github.com/heartwheel-go/heartwheel/examples/fleet/internal/gateway"
)

func main() {
	gateway.QuietRedis()
	os.Exit(gateway.Main(gateway.UntilSignal(), os.Args[1:], os.Stdout, os.Stderr))
}
