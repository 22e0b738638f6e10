package redis

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
)

//go:embed lua/*.lua
var sources embed.FS

// script is a Lua script as the server knows it.
type script struct {
	name, source, sha string
	slots             bool // it is about slots, several in one run
}

// What frees memory, or is needed to do so, runs on a full server, too. The flags need Redis
// 7.0; they are looked at before the script runs, so it is run as a whole or not at all.
var (
	scriptSet    = slotScript("set", "")
	scriptMove   = slotScript("move", "allow-oom")
	scriptRemove = slotScript("remove", "allow-oom")
	scriptReplay = slotScript("replay", "allow-oom")
	scriptGet    = slotScript("get", "no-writes")
	scriptList   = slotScript("list", "no-writes")
	scriptCount  = slotScript("count", "no-writes")
	scriptExpire = slotScript("expire", "allow-oom")
	scriptExtend = slotScript("extend", "allow-oom")
	scriptKeep   = slotScript("keep", "allow-oom")
	scriptMake   = slotScript("make", "allow-oom")
	scriptSeal   = slotScript("seal", "allow-oom")
	scriptPeek   = slotScript("peek", "no-writes")
	scriptInsert = slotScript("insert", "allow-oom")
	scriptLeave  = slotScript("leave", "allow-oom")
	scriptSettle = slotScript("settle", "allow-oom")
	scriptDrop   = slotScript("drop", "allow-oom")
	scriptTopic  = newScript("topic", "allow-oom", read("topic"))
	scriptNumber = newScript("number", "allow-oom", read("number"))
	scriptBeat   = newScript("beat", "allow-oom", read("beat"))
)

func slotScript(name, flags string) *script {
	s := newScript(name, flags, read("head")+"local function slot(ARGV)\n"+read(name)+"end\n"+read("tail"))
	s.slots = true
	return s
}

func newScript(name, flags, source string) *script {
	source = "#!lua flags=" + flags + "\n" + source
	sum := sha1.Sum([]byte(source))
	return &script{name: name, source: source, sha: hex.EncodeToString(sum[:])}
}

func read(name string) string {
	source, err := sources.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // it is embedded
	}
	return string(source)
}
