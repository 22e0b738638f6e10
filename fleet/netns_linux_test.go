package fleet

import (
	"fmt"
	"net/netip"
	"os/exec"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// link is a cable to the namespace of a process.
type link struct {
	pid          int
	device       string // at this end
	inside       string // at the other
	here, there  netip.Addr
	ours, theirs string // addresses of the two cards
}

// nobody is the address of no card.
const nobody = "02:68:77:ff:ff:ff"

// newLink lays one. A process can have four.
func newLink(t *testing.T, pid, number int) *link {
	t.Helper()
	// 198.18.0.0/15 is for tests (RFC 2544), and each link has four of its addresses.
	net := uint32(198<<24|18<<16) + uint32(pid%(1<<13))*16 + uint32(number)*4
	address := func(host uint32) netip.Addr {
		net := net + host
		return netip.AddrFrom4([4]byte{byte(net >> 24), byte(net >> 16), byte(net >> 8), byte(net)})
	}
	l := &link{
		pid: pid, device: fmt.Sprintf("hw%d-%d", pid, number), inside: fmt.Sprintf("link%d", number),
		here: address(1), there: address(2),
		ours: fmt.Sprintf("02:68:77:00:%02x:01", number), theirs: fmt.Sprintf("02:68:77:00:%02x:02", number),
	}
	run(t, "ip", "link", "add", l.device, "address", l.ours, "type", "veth",
		"peer", "name", l.inside, "address", l.theirs, "netns", strconv.Itoa(pid))
	for _, end := range []struct {
		ip     func(*testing.T, ...string)
		device string
		addr   netip.Addr
	}{{l.outer, l.device, l.here}, {l.inner, l.inside, l.there}} {
		end.ip(t, "address", "add", end.addr.String()+"/30", "dev", end.device)
		end.ip(t, "link", "set", end.device, "up")
	}
	l.heal(t)
	return l
}

// cut has frames in both directions go to a missing card: nobody is told of it.
func (l *link) cut(t *testing.T) { l.connect(t, nobody, nobody) }

// heal ends a cut.
func (l *link) heal(t *testing.T) { l.connect(t, l.ours, l.theirs) }

func (l *link) connect(t *testing.T, ours, theirs string) {
	t.Helper()
	l.outer(t, "neighbour", "replace", l.there.String(), "lladdr", theirs, "dev", l.device, "nud", "permanent")
	l.inner(t, "neighbour", "replace", l.here.String(), "lladdr", ours, "dev", l.inside, "nud", "permanent")
}

func (l *link) outer(t *testing.T, args ...string) { t.Helper(); run(t, "ip", args...) }

func (l *link) inner(t *testing.T, args ...string) {
	t.Helper()
	run(t, "nsenter", append([]string{"--net", "--target", strconv.Itoa(l.pid), "ip"}, args...)...)
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	said, err := exec.Command(name, args...).CombinedOutput()
	require.NoError(t, err, "%s %v: %s (scripts/install-servers installs what is missing)", name, args, said)
}
