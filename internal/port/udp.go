package port

import "net"

// ClaimUDP is Claim for UDP. Datagrams for the claim would be lost: close it in gnet's OnBoot.
func ClaimUDP(addr string) (claim net.PacketConn, claimed string, err error) {
	if claim, err = net.ListenPacket("udp", addr); err != nil {
		return nil, "", err
	}
	if err := share(claim.(*net.UDPConn)); err != nil {
		_ = claim.Close()
		return nil, "", err
	}
	return claim, claim.LocalAddr().String(), nil
}
