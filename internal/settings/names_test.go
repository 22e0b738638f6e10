package settings

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAVariableThatIsNoSettingIsAnErrorThatNamesTheNearestOne(t *testing.T) {
	var text string
	s := New("my-program", "", []Group{{Settings: []Setting{
		{Name: "max-conns", Value: Text(&text)},
		{Name: "ttl", Value: Text(&text)},
		{Name: "database", Value: Text(&text), Variable: "DATABASE_URL", Secret: true},
		{Name: "config", Value: Text(&text), Local: true},
		{Name: "check", Value: Text(&text), Local: true},
	}}})
	require.NoError(t, s.CheckNames(nil))
	require.NoError(t, s.CheckNames([]string{
		"PATH=/bin", "DATABASE_URL=x", "DATABASE_URI=x", "MY_PROGRAM_MAX_CONNS=1", "MY_PROGRAM_TTL=", "MY_PROGRAM_CONFIG=x", "MY_PROGRAM_TOKEN=x", "MY_PROGRAMS_TTL=1",
		"MY_PROGRAM_SERVICE_HOST=10.0.0.1", "MY_PROGRAM_SERVICE_PORT=80", "MY_PROGRAM_SERVICE_PORT_HTTP=80", "MY_PROGRAM_PORT=tcp://10.0.0.1:80", // links of Kubernetes
		"MY_PROGRAM_PORT_80_TCP=tcp://10.0.0.1:80", "MY_PROGRAM_PORT_80_TCP_ADDR=10.0.0.1", "MY_PROGRAM_NODES_SERVICE_HOST=10.0.0.1", "MY_PROGRAM_NODES_PORT=tcp://10.0.0.1:80",
	}, "MY_PROGRAM_TOKEN"))
	for pair, want := range map[string]string{
		"MY_PROGRAM_MAX_CONN=1":   "MY_PROGRAM_MAX_CONN is no variable of my-program: the nearest one is MY_PROGRAM_MAX_CONNS",
		"MY_PROGRAM_MAXCONNS=1":   "the nearest one is MY_PROGRAM_MAX_CONNS",
		"MY_PROGRAM_TLL=1":        "the nearest one is MY_PROGRAM_TTL",
		"MY_PROGRAM_TOKENS=1":     "the nearest one is MY_PROGRAM_TOKEN",
		"MY_PROGRAM_PORT=80":      "MY_PROGRAM_PORT is no variable",
		"MY_PROGRAM_=":            "MY_PROGRAM_ is no variable",
		"MY_PROGRAM_DATABASE=pwd": "MY_PROGRAM_DATABASE is no variable of my-program: it is DATABASE_URL",
		"my_program_max_conns=1":  "my_program_max_conns is no variable of my-program: it is MY_PROGRAM_MAX_CONNS",
		"MY_PROGRAM_max_conns=1":  "MY_PROGRAM_max_conns is no variable of my-program: it is MY_PROGRAM_MAX_CONNS",
		"My_Program_Max_Conn=1":   "the nearest one is MY_PROGRAM_MAX_CONNS",
		"my_program_token=1":      "the nearest one is MY_PROGRAM_TOKEN",
		"my_program_config=x":     "it is MY_PROGRAM_CONFIG",
		"my_program_database=pwd": "it is DATABASE_URL",
		"my_program_check=1":      "-check is for the command line only",
		"MY_PROGRAM_CHECK=1":      "MY_PROGRAM_CHECK is no variable of my-program: -check is for the command line only",
	} {
		err := s.CheckNames([]string{pair}, "MY_PROGRAM_TOKEN")
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "pwd")
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"kitten", "sitting", 3}, {"flaw", "lawn", 2}, {"abc", "abc", 0}} {
		require.Equal(t, c.want, distance(c.a, c.b))
		require.Equal(t, c.want, distance(c.b, c.a))
	}
}
