package port

import "net"

// Free returns a port of the loopback interface without a listener just now. Until the caller listens,
// somebody else may have it.
func Free() (string, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}
