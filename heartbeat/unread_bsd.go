//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package heartbeat

// fionread is FIONREAD of sys/filio.h, _IOR('f', 127, int). x/sys/unix lacks it.
const fionread = 0x4004667f
