package zookeeper

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// snapshot is the content of ZooKeeper at one time.
type snapshot struct {
	ctime    int64 // creation time of the parent, in milliseconds
	cversion int32 // number of children that have come or gone since
	version  int32 // number of writes to the parent's data since: of changes of topics
	nodes    []engine.Node
	ttl      time.Duration     // the longest of them
	known    map[string]record // by name of the znode
}

// record is the data of a node's znode.
type record struct {
	engine.Node
	Millis int64 `json:"ttl"`
}

// isOf reports whether the children of the znode are still the same, with the same topics.
func (s snapshot) isOf(parent *zk.Stat) bool {
	return s.ctime == parent.Ctime && s.cversion == parent.Cversion && s.version == parent.Version
}

// next returns the snapshot of the children. It reads only the data that may have changed.
func (s snapshot) next(conn *zk.Conn, path string, children []string, parent *zk.Stat) (snapshot, error) {
	old := s.known
	if s.ctime != parent.Ctime || s.version != parent.Version {
		old = nil
	}
	seen := snapshot{ctime: parent.Ctime, cversion: parent.Cversion, version: parent.Version, known: make(map[string]record)}
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
		node.Run = "" // views have none
		seen.add(node.Node)
		seen.ttl = max(seen.ttl, time.Duration(node.Millis)*time.Millisecond)
	}
	return seen, nil
}

// add adds a node at the end. A node that is there already has two znodes. The first is of an old
// session that will end; until then the node keeps its place.
func (s *snapshot) add(node engine.Node) {
	i := slices.IndexFunc(s.nodes, func(n engine.Node) bool { return n.Name == node.Name })
	if i < 0 {
		s.nodes = append(s.nodes, node)
	} else {
		s.nodes[i] = node
	}
}

func (s snapshot) view() engine.View {
	return engine.View{Nodes: slices.Clone(s.nodes), TTL: s.ttl}
}

// inOrder returns the znodes of nodes among the children, oldest first.
func inOrder(children []string) []string {
	nodes := slices.DeleteFunc(slices.Clone(children), func(child string) bool { return sequence(child) < 0 })
	slices.SortFunc(nodes, func(a, b string) int { return cmp.Compare(sequence(a), sequence(b)) })
	return nodes
}

// sequence returns the number that ZooKeeper gave to a node's znode. It returns -1 for any other
// znode.
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

// find returns the oldest child with a prefix, or an empty string.
func find(children []string, prefix string) string {
	for _, child := range inOrder(children) {
		if strings.HasPrefix(child, prefix) {
			return child
		}
	}
	return ""
}
