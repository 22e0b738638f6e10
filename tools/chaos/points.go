package main

// A point is a function of Go's library that disturbs its caller.
type point struct {
	file string // below GOROOT/src
	name string // as in an error of the compiler: (*T).method
	call string // inserted
	at   place
}

type place int

const (
	begin  place = iota // before the first statement
	second              // after the first statement
	end                 // after the last statement
)

const disturb = "disturb()"

// points come between any two steps of goroutines that matter to others: atomics, locks,
// channels, clock reads, goroutine starts, timers, and the system calls of files and sockets.
var points = append(atomics(), []point{
	{file: "sync/atomic/value.go", name: "(*Value).Load", call: disturb},
	{file: "sync/atomic/value.go", name: "(*Value).Store", call: disturb},
	{file: "sync/atomic/value.go", name: "(*Value).Swap", call: disturb},
	{file: "sync/atomic/value.go", name: "(*Value).CompareAndSwap", call: disturb},
	{file: "internal/sync/mutex.go", name: "(*Mutex).Lock", call: disturb},
	{file: "internal/sync/mutex.go", name: "(*Mutex).TryLock", call: disturb},
	{file: "internal/sync/mutex.go", name: "(*Mutex).Unlock", call: disturb},
	{file: "internal/sync/mutex.go", name: "(*Mutex).Unlock", call: disturb, at: end},
	{file: "sync/rwmutex.go", name: "(*RWMutex).Lock", call: disturb},
	{file: "sync/rwmutex.go", name: "(*RWMutex).Unlock", call: disturb},
	{file: "sync/rwmutex.go", name: "(*RWMutex).Unlock", call: disturb, at: end},
	{file: "sync/rwmutex.go", name: "(*RWMutex).RLock", call: disturb},
	{file: "sync/rwmutex.go", name: "(*RWMutex).RUnlock", call: disturb},
	{file: "sync/rwmutex.go", name: "(*RWMutex).RUnlock", call: disturb, at: end},
	{file: "sync/cond.go", name: "(*Cond).Signal", call: disturb},
	{file: "sync/cond.go", name: "(*Cond).Broadcast", call: disturb},
	{file: "time/time.go", name: "Now", call: disturb},
	{file: "time/time.go", name: "Now", call: disturb, at: second}, // the clock has been read
	{file: "time/time.go", name: "Since", call: disturb},
	{file: "time/time.go", name: "Until", call: disturb},
	{file: "time/sleep.go", name: "(*Timer).Stop", call: disturb},
	{file: "time/sleep.go", name: "(*Timer).Reset", call: disturb},
	{file: "time/sleep.go", name: "AfterFunc", call: disturb},
	{file: "internal/poll/fd_unix.go", name: "(*FD).Read", call: disturb},
	{file: "internal/poll/fd_unix.go", name: "(*FD).Read", call: "defer " + disturb},
	{file: "internal/poll/fd_unix.go", name: "(*FD).Write", call: disturb},
	{file: "internal/poll/fd_unix.go", name: "(*FD).Write", call: "defer " + disturb},
	{file: "internal/poll/fd_unix.go", name: "(*FD).Accept", call: "defer " + disturb},
	{file: "internal/poll/fd_unix.go", name: "(*FD).Close", call: disturb},
	{file: "runtime/chan.go", name: "chansend", call: disturb},
	{file: "runtime/chan.go", name: "chanrecv", call: disturb},
	{file: "runtime/chan.go", name: "closechan", call: disturb},
	{file: "runtime/select.go", name: "selectgo", call: disturb},
	{file: "runtime/proc.go", name: "newproc", call: disturb, at: end},
	{file: "runtime/proc.go", name: "os_beforeExit", call: "chaosEnd()"},
}...)

// atomics are the methods of the atomic types, disturbed before each.
func atomics() (all []point) {
	method := func(typ, name string) {
		all = append(all, point{file: "sync/atomic/type.go", name: "(*" + typ + ")." + name, call: disturb})
	}
	for _, typ := range []string{"Bool", "Pointer", "Int32", "Int64", "Uint32", "Uint64", "Uintptr"} {
		for _, name := range []string{"Load", "Store", "Swap", "CompareAndSwap"} {
			method(typ, name)
		}
	}
	for _, typ := range []string{"Int32", "Int64", "Uint32", "Uint64", "Uintptr"} {
		for _, name := range []string{"Add", "And", "Or"} {
			method(typ, name)
		}
	}
	return all
}
