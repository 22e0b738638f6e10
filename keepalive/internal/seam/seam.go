// Package seam carries what package keepalive has for package adapter, and hides from other
// programs.
package seam

import (
	"context"
	"log/slog"
	"net"
	"time"
)

// Funcs are functions of package keepalive, about its Keeper K, its Guard G, its Reason R and
// the adapters A. Package adapter says what each does.
type Funcs[K, G, R, A any] struct {
	Made     func(k *K) bool
	Guard    func(k *K, g *G, conn any, a A, remote net.Addr, tells bool) error
	Refuse   func(k *K) R
	Keeper   func(g *G) *K
	Logger   func(k *K) *slog.Logger
	Conn     func(g *G) any
	Scratch  func(g *G) *uint32
	Heard    func(g *G)
	Reads    func(g *G) bool
	Writes   func(g *G) bool
	Tells    func(g *G) bool
	Reason   func(g *G) R
	Decide   func(g *G)
	Identify func(g *G, remote net.Addr) bool
	Release  func(g *G) bool
	Closed   func(g *G, reason R)
	Lose     func(g *G)
	Upgrade  func(g *G, probe func() error, farewell func(reason R, deadline time.Time)) error
	Backlog  func(g *G, counts bool)
	Find     func(f func(conn any) *G)

	Exchanges func(g *G, ending func())
	Exchange  func(g *G, underWay bool)
	Begins    func(g *G, begins bool)
	Drain     func(ctx context.Context, k *K, told func()) error

	SocketTells func(fd uintptr) bool
	MaxLinger   int
}

// funcs is a Funcs. Package keepalive sets it when it is initialized.
var funcs any

// Set keeps the functions.
func Set[K, G, R, A any](f Funcs[K, G, R, A]) { funcs = f }

// Get returns them. Its type arguments must be those of Set.
func Get[K, G, R, A any]() Funcs[K, G, R, A] { return funcs.(Funcs[K, G, R, A]) }
