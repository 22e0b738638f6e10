package testserver

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

const (
	sigStop     = syscall.SIGSTOP
	sigContinue = syscall.SIGCONT
)

// attributes returns the attributes of a process of the account who, or nil if who is nil.
func attributes(who *account) *syscall.SysProcAttr {
	if who == nil {
		return nil
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(who.uid), Gid: uint32(who.gid)}}
}

// descendants returns the ids of all children of a process, of their children, and so on. It
// reads /proc, because PostgreSQL's children are in process groups of their own.
func descendants(pid int) []int {
	children := make(map[int][]int)
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			continue
		}
		if _, parent, ok := stat(path); ok {
			children[parent] = append(children[parent], child)
		}
	}
	var all []int
	for todo := []int{pid}; len(todo) > 0; todo = todo[1:] {
		all = append(all, children[todo[0]]...)
		todo = append(todo, children[todo[0]]...)
	}
	return all
}

// stat returns the state and the parent of a process, or of a thread.
func stat(path string) (state byte, parent int, ok bool) {
	line, err := os.ReadFile(path)
	if err != nil {
		return 0, 0, false
	}
	// The name, in parentheses, may have spaces and parentheses itself.
	fields := bytes.Fields(line[bytes.LastIndexByte(line, ')')+1:])
	if len(fields) < 2 {
		return 0, 0, false
	}
	parent, err = strconv.Atoi(string(fields[1]))
	return fields[0][0], parent, err == nil
}

// anyLives reports whether one of the processes has not ended. A zombie has ended.
func anyLives(pids []int) bool {
	for _, pid := range pids {
		if state, _, ok := stat("/proc/" + strconv.Itoa(pid) + "/stat"); ok && state != 'Z' && state != 'X' {
			return true
		}
	}
	return false
}

// anyRuns reports whether a thread of one of the processes has neither stopped nor ended.
func anyRuns(pids []int) bool {
	for _, pid := range pids {
		threads, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/stat")
		for _, path := range threads {
			if state, _, ok := stat(path); ok && !bytes.ContainsRune([]byte("TtZX"), rune(state)) {
				return true
			}
		}
	}
	return false
}

// signalAll signals the running ones of the processes.
func signalAll(pids []int, sig syscall.Signal) error {
	var errs []error
	for _, pid := range pids {
		if err := syscall.Kill(pid, sig); !errors.Is(err, syscall.ESRCH) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
