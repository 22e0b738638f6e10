package redis

import (
	"embed"

	"github.com/heartwheel-go/heartwheel/internal/redisrun"
)

//go:embed lua/*.lua
var sources embed.FS

// What frees memory, or is needed to do so, runs on a full server, too. The flags need Redis
// 7.0; they are looked at before the script runs, so it is run as a whole or not at all.
var (
	scriptSet       = slotScript("set", "")
	scriptMove      = slotScript("move", "allow-oom")
	scriptRemove    = slotScript("remove", "allow-oom")
	scriptReplay    = slotScript("replay", "allow-oom")
	scriptGet       = slotScript("get", "no-writes")
	scriptList      = slotScript("list", "no-writes")
	scriptLog       = slotScript("log", "no-writes")
	scriptCount     = slotScript("count", "no-writes")
	scriptLease     = slotScript("lease", "allow-oom")
	scriptExtend    = slotScript("extend", "allow-oom")
	scriptKeep      = slotScript("keep", "allow-oom")
	scriptLook      = bareScript("look", lookKeys)
	scriptFirst     = bareScript("first", firstKeys)
	scriptEstimate  = bareScript("estimate", endedKeys)
	scriptMake      = slotScript("make", "allow-oom")
	scriptSeal      = slotScript("seal", "allow-oom")
	scriptPeek      = slotScript("peek", "no-writes")
	scriptInsert    = slotScript("insert", "allow-oom")
	scriptLeave     = slotScript("leave", "allow-oom")
	scriptSettle    = slotScript("settle", "allow-oom")
	scriptDrop      = slotScript("drop", "allow-oom")
	scriptTopic     = redisrun.NewScript("topic", "allow-oom", read("topic"))
	scriptCopy      = redisrun.NewScript("copy", "allow-oom", read("copy"))
	scriptCopied    = redisrun.NewScript("copied", "no-writes", read("copied"))
	scriptNumber    = redisrun.NewScript("number", "allow-oom", read("number"))
	scriptHeartbeat = redisrun.NewScript("heartbeat", "allow-oom", read("heartbeat"))
)

// slotScript returns a script for the partitions of a topic. It begins with head.lua.
func slotScript(name, flags string) *redisrun.Script {
	return redisrun.NewSlotScript(name, flags, keyNames, read("head"), read(name))
}

// bareScript returns a script that reads some keys of a partition, without head.lua: it runs often, on partitions
// with nothing to do.
func bareScript(name string, keys []string) *redisrun.Script {
	return redisrun.NewSlotScript(name, "no-writes", keys, "local function chosen() end\n", read(name))
}

func read(name string) string {
	source, err := sources.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // it is embedded
	}
	return string(source)
}
