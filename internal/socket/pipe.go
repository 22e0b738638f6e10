package socket

import (
	"net"
	"reflect"
	"unsafe"
)

// Pipe is an end of a net.Pipe. It has no socket, and no buffer where bytes could wait: a Write waits for a Read.
type Pipe struct {
	writes <-chan []byte
	taken  chan<- int
}

// InnerPipe returns the innermost connection if it is a net.Pipe, or nil. unwrap is that of Layers.
func InnerPipe(c net.Conn, unwrap func(net.Conn) net.Conn) *Pipe {
	for layer := range Layers(c, unwrap) {
		c = layer
	}
	if c == nil || !pipe.known || reflect.TypeOf(c) != pipe.end {
		return nil
	}
	end := reflect.ValueOf(c).UnsafePointer()
	return &Pipe{
		writes: *(*<-chan []byte)(unsafe.Add(end, pipe.writes)),
		taken:  *(*chan<- int)(unsafe.Add(end, pipe.taken)),
	}
}

// Waits reports whether a Write of the peer waits. It takes nothing, as a Read of no bytes, but does not wait for a Write.
func (p *Pipe) Waits() bool {
	select {
	case <-p.writes:
		p.taken <- 0 // then the Write offers all its bytes again
		return true
	default:
		return false
	}
}

// pipe is where an end of a net.Pipe has the channels of its Read. They are unknown if another version of Go has others.
var pipe = func() (p struct {
	end           reflect.Type
	writes, taken uintptr // offsets
	known         bool
},
) {
	end, _ := net.Pipe()
	p.end = reflect.TypeOf(end)
	if p.end.Kind() != reflect.Pointer || p.end.Elem().Kind() != reflect.Struct {
		return p
	}
	writes, hasWrites := p.end.Elem().FieldByName("rdRx")
	taken, hasTaken := p.end.Elem().FieldByName("rdTx")
	p.writes, p.taken = writes.Offset, taken.Offset
	p.known = hasWrites && hasTaken && writes.Type == reflect.TypeFor[<-chan []byte]() && taken.Type == reflect.TypeFor[chan<- int]()
	return p
}()
