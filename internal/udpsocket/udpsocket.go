// Package udpsocket asks sockets of UDP for the datagrams waiting in them and dropped by them.
// Package net has no functions for that.
package udpsocket

// Plenty is more than the datagrams that wait in any socket.
const Plenty = 1 << 20
