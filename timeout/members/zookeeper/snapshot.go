package zookeeper

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// snapshot is what ZooKeeper had at one time.
type snapshot struct {
	term    int64
	ctime   int64 // when the parent was made,
	version int32 // and how often its data was written since
	nodes   []timeout.Node
	known   map[string]timeout.Node // by child
}

// term returns the term of the children of a znode. Each that comes or goes adds one to
// Cversion, and each that serves other topics one to Version.
func term(parent *zk.Stat) int64 {
	return parent.Ctime + int64(parent.Cversion) + int64(parent.Version)
}

// next returns the snapshot of the children, and reads the data only of those that may have
// other data than before.
func (s snapshot) next(conn *zk.Conn, path string, children []string, parent *zk.Stat) (snapshot, error) {
	old := s.known
	if s.ctime != parent.Ctime || s.version != parent.Version {
		old = nil
	}
	seen := snapshot{term: term(parent), ctime: parent.Ctime, version: parent.Version, known: make(map[string]timeout.Node)}
	for _, child := range inOrder(children) {
		node, ok := old[child]
		if !ok {
			data, _, err := conn.Get(path + "/" + child)
			if err != nil {
				return snapshot{}, err
			}
			if err := json.Unmarshal(data, &node); err != nil {
				return snapshot{}, fmt.Errorf("znode %s/%s: %w", path, child, err)
			}
		}
		seen.known[child] = node
		seen.add(node)
	}
	return seen, nil
}

// add adds a node at the end. One that is there already has two znodes, of which the first is
// that of a session which will end: the node keeps its place until then.
func (s *snapshot) add(node timeout.Node) {
	i := slices.IndexFunc(s.nodes, func(n timeout.Node) bool { return n.Name == node.Name })
	if i < 0 {
		s.nodes = append(s.nodes, node)
	} else {
		s.nodes[i] = node
	}
}

func (s snapshot) view() timeout.View {
	return timeout.View{Term: s.term, Nodes: slices.Clone(s.nodes)}
}

// inOrder returns the children that are nodes, in the order in which they came.
func inOrder(children []string) []string {
	nodes := slices.DeleteFunc(slices.Clone(children), func(child string) bool { return sequence(child) < 0 })
	slices.SortFunc(nodes, func(a, b string) int { return cmp.Compare(sequence(a), sequence(b)) })
	return nodes
}

// sequence returns the number that ZooKeeper has given to a node's znode, or -1 if it is
// somebody else's.
func sequence(child string) int64 {
	rest, ok := strings.CutPrefix(child, "n-")
	if !ok {
		return -1
	}
	_, digits, ok := strings.Cut(rest, "-")
	if !ok {
		return -1
	}
	number, err := strconv.ParseUint(digits, 10, 31)
	if err != nil {
		return -1
	}
	return int64(number)
}

// find returns the child with a mark, or an empty string.
func find(children []string, mark string) string {
	for _, child := range inOrder(children) {
		if strings.HasPrefix(child, mark) {
			return child
		}
	}
	return ""
}
