package redisrun

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"fmt"
	"strings"
)

//go:embed tail.lua
var tail string

// Script is a Lua script as the server knows it.
type Script struct {
	name, source, sha string
	slots             bool // it is about slots, several in one run
	width             int  // how many keys of each it has
}

// NewScript returns a script with flags of Redis 7.0. The server looks at the flags before it runs
// the script: so it is run as a whole or not at all.
func NewScript(name, flags, source string) *Script {
	source = "#!lua flags=" + flags + "\n" + source
	sum := sha1.Sum([]byte(source))
	return &Script{name: name, source: source, sha: hex.EncodeToString(sum[:])}
}

// NewSlotScript returns a script working on slots, without a Cluster on several in one run.
//
// keys are the Lua variables for a slot's keys, or for the first ones. head is other Lua code of the
// script. It must define a function chosen, called each time the variables have been set to a slot's
// keys. body is the body of a function with ARGV, the arguments for one slot.
func NewSlotScript(name, flags string, keys []string, head, body string) *Script {
	names := strings.Join(keys, ", ")
	s := NewScript(name, flags, fmt.Sprintf("local %s\nlocal width = %d\n%slocal function slot(ARGV)\n%send\n%s",
		names, len(keys), head, body, strings.ReplaceAll(tail, "$keys", names)))
	s.slots, s.width = true, len(keys)
	return s
}

// Keys returns the first of a slot's keys, as many as the slot script uses: each key costs the
// server about a microsecond.
func (s *Script) Keys(slot []any) []any { return slot[:s.width] }
