package main

// program is a program with an image.
type program struct {
	name        string
	module, pkg string // directory of the module, and the package in it
	description string
	args        []string // of a container that is given none
	ports       []string
}

var programs = []program{
	{
		name: "echo-heartbeat", module: ".", pkg: "./cmd/echo-heartbeat",
		description: "A TCP server that closes silent connections",
		args:        []string{"-addr", ":9000", "-admin", ":9001"},
		ports:       []string{"9000/tcp", "9001/tcp"},
	},
	{
		name: "timeoutd", module: "cmd/timeoutd", pkg: ".",
		description: "Durable tasks with a due time, over HTTP",
		args:        []string{"-addr", ":8077"},
		ports:       []string{"8077/tcp"},
	},
}
