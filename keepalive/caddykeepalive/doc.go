// Package caddykeepalive is a listener wrapper for Caddy, the module caddy.listeners.heartwheel: it closes connections whose
// peers have fallen silent, and bounds their age and their number. In a Caddyfile:
//
//	{
//		servers {
//			listener_wrappers {
//				heartwheel {
//					idle       2m
//					first_byte 10s
//					max_age    24h 1m
//					per_client 100
//					max_conns  50000 evict
//					drain      5m
//				}
//				tls
//			}
//		}
//	}
//
// It is built in by
//
//	xcaddy build --with github.com/heartwheel-go/heartwheel/keepalive/caddykeepalive
//
// # What is silence
//
// Bytes are life, those that the peer sends, and on Linux those that it acknowledges: a long download goes on as long as the
// peer takes it. Elsewhere a write counts as soon as the socket takes it. While a request is served its connection is not
// idle: the backend may take its time, and an event stream may have nothing to say. For TCP on Linux, a peer that takes
// nothing of a response for a whole timeout is closed even then. A request that stops half-way, in its header or its body, is
// for Caddy's own timeouts, read_header and read_body. After an upgrade, as to a WebSocket, the connection is idle whenever
// no bytes move: idle must be longer than the pause between two pings.
//
// # Order
//
// heartwheel stands before tls, or Caddy would not see that a connection is one of TLS; without tls in the list, all
// wrappers come after it. It stands behind proxy_protocol, so that per_client counts clients and not their proxy, and before
// http_redirect, which hides the socket. Each server of Caddy counts its own connections. HTTP/3 has no listener for
// wrappers: the protocols of a server can leave it out.
//
// # Reload
//
// The new config has a new Keeper, and shares the socket with the old one: no connection is refused. As without this
// module, a request that comes at that very moment may get no answer. The connections of the old config keep its timeouts
// until they end, and the new config does not count them. Caddy itself closes the idle ones at once, and the others after
// their requests, within its grace_period. It closes WebSockets of reverse_proxy at once, or all together after
// stream_close_delay. With a longer stream_close_delay, drain spreads their ends evenly over its time, so that their clients
// don't all come back together; other connections of the old config end between two requests. The end of the process does
// not wait for drain.
//
// # When not to use this package
//
// Caddy's timeouts read_header, read_body and idle need no module, if all connections are HTTP, short, and few enough.
package caddykeepalive
