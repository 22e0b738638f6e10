// Package proc reads what processes use from /proc, and says to the scheduler and the kernel how they
// run. Elsewhere than on Linux all figures are 0.
package proc
