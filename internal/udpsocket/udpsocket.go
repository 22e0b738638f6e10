// Package udpsocket asks sockets of UDP for the datagrams waiting in them and dropped by them.
// Package net has no functions for that.
package udpsocket
