// Package memory is an engine in this process's memory. It is for tests, for tasks that may be
// lost with the process, and as the near window in front of a table (package index).
//
// The waiting and running tasks of each slot are in a heap by time. A look for due tasks takes them from
// its top, and tells when the next is due. So an engine without calls does nothing, and nothing ticks.
package memory
