// Package memory is an engine in this process's memory. It is for tests, for tasks that may be
// lost with the process, and as the near window in front of a table (package index).
//
// Each task is a timer of package wheel. The wheel hands over due tasks, and they wait in a
// heap for each slot until they are leased. So setting and moving cost as much as in a wheel,
// whatever the number of tasks, and a task is up to two ticks late.
package memory
