//go:build conformance

package main

// The modules of suites to be copied. These imports keep them, and all that their tests import, in go.mod.
import (
	_ "github.com/coder/websocket"
	_ "github.com/gorilla/websocket"
	_ "github.com/panjf2000/gnet/v2"
	_ "github.com/zeromicro/go-zero/core/collection"
)
