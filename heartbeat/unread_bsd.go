//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package heartbeat

// fionread is FIONREAD of sys/filio.h, _IOR('f', 127, int), which x/sys/unix does
// not have.
const fionread = 0x4004667f
