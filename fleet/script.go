package fleet

import (
	"embed"
	"slices"

	"github.com/heartwheel-go/heartwheel/internal/redisrun"
)

//go:embed lua/*.lua
var sources embed.FS

// keyNames are the last parts of a slot's keys, and their names in the scripts. A script gets the
// keys up to the last one of its own, so the common keys come first.
var keyNames = []string{"l", "e", "m", "o", "x", "y", "g", "t", "d", "a"}

// scripts are the operations on a slot, each in one step. Operations to free memory, or to keep
// sessions alive, may run on a full server.
type scripts struct {
	register, extend, unregister, unregisterLost, kick, sweep, get, count, nodes, beat, goodbye *redisrun.Script
}

var serverScripts = newScripts(read("clock"))

// newScripts makes the scripts with a clock. Tests have a clock of their own.
func newScripts(clock string) *scripts {
	head := "local call = redis.call\n" + clock + read("head")
	script := func(name, flags, last string) *redisrun.Script { // last is the last key of the script
		keys := keyNames[:slices.Index(keyNames, last)+1]
		return redisrun.NewSlotScript(name, flags, keys, head, read(name))
	}
	return &scripts{
		register:       script("register", "", "d"),
		extend:         script("extend", "allow-oom", "m"),
		unregister:     script("unregister", "allow-oom", "y"),
		unregisterLost: script("unregisterlost", "allow-oom", "d"),
		kick:           script("kick", "allow-oom", "y"),
		sweep:          script("sweep", "allow-oom", "a"),
		get:            script("get", "no-writes", "o"),
		count:          script("count", "no-writes", "x"),
		nodes:          script("nodes", "no-writes", "g"),
		beat:           script("beat", "allow-oom", "d"),
		goodbye:        script("goodbye", "allow-oom", "t"),
	}
}

func read(name string) string {
	source, err := sources.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // it is embedded
	}
	return string(source)
}
