package wheel_test

import (
	"fmt"
	"time"

	"github.com/heartwheel-go/heartwheel/wheel"
)

// A timer for each connection: its owner keeps a pointer.
func Example() {
	w, err := wheel.New(wheel.Config{Tick: 10 * time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer w.Stop()

	closed := make(chan string)
	timer := w.AfterFunc(50*time.Millisecond, func() { closed <- "silent for 50ms" })
	timer.Touch() // a heartbeat
	fmt.Println(<-closed)
	fmt.Println(timer.Touch())
	// Output:
	// silent for 50ms
	// false
}

// Timers found by a key.
func ExampleTimingWheel() {
	done := make(chan bool)
	tw, err := wheel.NewTimingWheel(10*time.Millisecond, 600, func(session string, user int) {
		fmt.Println(session, "of user", user, "has expired")
		close(done)
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer tw.Stop()

	_ = tw.SetTimer("s1", 7, time.Minute)
	_ = tw.SetTimer("s2", 8, time.Minute)
	_ = tw.MoveTimer("s1", 60*time.Millisecond)
	_ = tw.RemoveTimer("s2")
	<-done
	fmt.Println(tw.MoveTimer("s2", time.Second))
	// Output:
	// s1 of user 7 has expired
	// wheel: key not pending
}

// conn is a struct of the caller's with a timer inside: no object of its own.
type conn struct {
	name  string
	timer wheel.TimerOf[*conn]
}

func ExampleWheelOf() {
	done := make(chan bool)
	w, err := wheel.NewOf(wheel.Config{Tick: 10 * time.Millisecond}, wheel.Funcs[*conn]{
		Due: func(t *wheel.TimerOf[*conn], c *conn) {
			if _, ok := t.Expire(); ok {
				fmt.Println(c.name, "is gone")
				close(done)
			}
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer w.Stop()

	c := &conn{name: "c1"}
	if err := w.Start(&c.timer, c, time.Minute); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.timer.Touch())
	c.timer.Move(50 * time.Millisecond)
	<-done
	// Output:
	// true
	// c1 is gone
}
