package fleet

import (
	"embed"

	"github.com/heartwheel-go/heartwheel/timeout/internal/redisrun"
)

//go:embed lua/*.lua
var sources embed.FS

// keyNames are the last parts of a slot's keys, and their names in the scripts.
var keyNames = []string{"l", "e", "o", "m", "x", "y", "g", "t", "d", "a"}

// scripts are what is done to slots, each in one step. What frees memory, or keeps what is
// there, runs on a full server, too.
type scripts struct {
	register, extend, unregister, kick, sweep, get, count, beat, goodbye *redisrun.Script
}

var serverScripts = newScripts(read("clock"))

// newScripts makes scripts that go by a clock: tests have one of their own.
func newScripts(clock string) *scripts {
	head := "local call = redis.call\n" + clock + read("head")
	script := func(name, flags string) *redisrun.Script {
		return redisrun.NewSlotScript(name, flags, keyNames, head, read(name))
	}
	return &scripts{
		register:   script("register", ""),
		extend:     script("extend", "allow-oom"),
		unregister: script("unregister", "allow-oom"),
		kick:       script("kick", "allow-oom"),
		sweep:      script("sweep", "allow-oom"),
		get:        script("get", "no-writes"),
		count:      script("count", "no-writes"),
		beat:       script("beat", "allow-oom"),
		goodbye:    script("goodbye", "allow-oom"),
	}
}

func read(name string) string {
	source, err := sources.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // it is embedded
	}
	return string(source)
}
