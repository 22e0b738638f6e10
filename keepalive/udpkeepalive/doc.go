// Package udpkeepalive gives UDP sessions a timeout: a session is the datagrams of one [Path], which is the address
// of a peer, and on a wildcard address of Linux the address that the peer has asked.
//
//	k, err := keepalive.New(keepalive.Config{
//		Timeout: 30 * time.Second,
//		Room:    keepalive.Room{MaxConns: 100_000, MaxPerKey: 100},
//	})
//	...
//	conn := udpkeepalive.Wrap[player](socket, k)
//	for buf := make([]byte, 1500); ; {
//		n, session, err := conn.Read(buf)
//		if err != nil {
//			return err
//		}
//		session.Value.handle(buf[:n]) // a player, at first zero
//		_, _ = session.Write(answer)
//	}
//
// The Keeper guards a session as it guards a connection, with all policies, reasons and figures. A
// [Session] is the conn of keepalive.Of, keepalive.Touch and the functions of the keepalive.Config.
// For gnet see gnetkeepalive.WrapUDP, and for any other read loop [Sessions].
//
// # Datagrams come first
//
// All datagrams that were in the socket when a session came due are handled before the decision
// on the session. So a slow program ends no session of a living peer, as long as the
// datagrams fit in the socket: the kernel drops those beyond its receive buffer. Give the socket
// room for the longest pause of the program (net.UDPConn.SetReadBuffer).
//
// # Spoofed addresses
//
// Anybody can send datagrams from any address, so set Room.MaxConns and Room.MaxPerKey. Room.Full
// should stay keepalive.FullReject: with keepalive.FullEvict, spoofed datagrams throw out living sessions.
// With Room.Full at its limit, new peers are refused and the others stay. To keep room for new
// peers, too, let a session live for seconds until its peer has answered: take ActivityManual
// and FirstMessage, and touch the session from then on. Or answer without a session, see
// Conn.Accept.
//
// # A peer that moves, or begins anew
//
// A peer with another address, say behind a NAT that has forgotten it, is a stranger. If the protocol has an identity,
// such as a connection id, Conn.Owner finds its session, and the session moves: see Sessions.Move for who may move
// one. A peer that begins anew from the same address, such as a device after a power cut, gets another session by
// Session.Restart.
//
// # What does not apply
//
// A datagram is all that UDP has: Closing.Mode and Closing.Timeout have no effect. Nor have ReadIdle,
// WriteIdle and Rate.MinBytes, and ActivityKernel is ActivityRead. FirstMessage needs ActivityManual,
// since a session begins with a datagram. keepalive.FullWait is keepalive.FullReject.
//
// # When not to use this package
//
// QUIC has an idle timeout of its own. For DTLS or another library that makes a net.Conn of each
// session, wrap its listener with keepalive.Keeper.Listener.
package udpkeepalive
