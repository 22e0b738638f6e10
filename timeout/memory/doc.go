// Package memory is a timeout.Engine in this process's memory: for tests, for tasks that may
// be lost with the process, and as the near window in front of a table (package index).
//
// Each task is a timer of package wheel, which hands over what is due; what is handed over
// waits in a heap for each slot until it is leased. So setting and moving cost what they
// cost in a wheel, whatever the number of tasks, and a task is up to two ticks late.
package memory
