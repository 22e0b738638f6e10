package protocol

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnswer(t *testing.T) {
	for _, c := range []struct {
		line, want string
		last       bool
	}{
		{"", "\n", false},
		{"hello", "hello\n", false},
		{"PING", "PONG\n", false},
		{"PING 17", "PONG 17\n", false},
		{"PING  two spaces ", "PONG  two spaces \n", false},
		{"PINGX", "PINGX\n", false},
		{"ping", "ping\n", false},
		{"BEAT", "", false},
		{"BEAT 17", "", false},
		{"BEATX", "BEATX\n", false},
		{"QUIT", "BYE\n", true},
		{"QUIT now", "QUIT now\n", false},
	} {
		out, last := Answer([]byte("before "), []byte(c.line), []byte("\n"))
		require.Equal(t, "before "+c.want, string(out))
		require.Equal(t, c.last, last)
	}
}
