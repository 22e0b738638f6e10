// Package tcpsocket asks sockets of TCP what has become of the bytes written to them. Package net has
// no functions for that.
package tcpsocket

// Sent is what a socket knows of the bytes written to it so far. The numbers only go up, and may be one
// byte apart even at rest.
type Sent struct {
	Written      uint64 // also those waiting to be sent
	Acknowledged uint64 // by the peer
	Pending      bool   // the peer has not acknowledged all of them
}
