package timeout

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

func TestViewsWithTheSameNodesAreTheSame(t *testing.T) {
	view := func(nodes ...engine.Node) engine.View { return engine.View{Nodes: nodes} }
	a, b := engine.Node{Name: "a", Topics: []string{"x"}}, engine.Node{Name: "b"}
	require.True(t, sameView(view(a, b), view(a, b)))
	require.True(t, sameView(engine.View{}, engine.View{}))
	for _, other := range []engine.View{
		{},
		view(a), view(b, a), view(a, b, b),
		view(engine.Node{Name: "a", Topics: []string{"y"}}, b), view(a, engine.Node{Name: "b", Topics: []string{}}),
	} {
		require.False(t, sameView(view(a, b), other), "%v", other)
	}
}

// A heartbeat of a node with many topics: Set waits for c.mu meanwhile.
func BenchmarkAdopt(b *testing.B) {
	const topics, slots, nodes = 256, 64, 20
	var view engine.View
	names := make([]string, topics)
	c := &Center{workers: map[string]*worker{}, topics: map[string]Topic{}, cfg: Config{Node: "node-7"}}
	for i := range names {
		names[i] = fmt.Sprintf("topic-%03d", i)
		c.topics[names[i]] = Topic{Name: names[i], Slots: slots}
		w := &worker{}
		w.topic = c.topics[names[i]].WithDefaults()
		w.attach(c, names[i], w, new(sync.WaitGroup))
		c.workers[names[i]] = w
	}
	for i := range nodes {
		view.Nodes = append(view.Nodes, engine.Node{Name: fmt.Sprint("node-", i), Topics: names})
	}
	for name, other := range map[string]bool{"view=same": false, "view=other": true} {
		b.Run(fmt.Sprintf("%s/topics=%d/slots=%d/nodes=%d", name, topics, slots, nodes), func(b *testing.B) {
			for b.Loop() {
				if other {
					view.Nodes = append([]engine.Node{view.Nodes[nodes-1]}, view.Nodes[:nodes-1]...)
				}
				c.adopt(view, time.Now().Add(time.Minute))
			}
		})
	}
}
