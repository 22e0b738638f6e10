package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/heartwheel-go/heartwheel/examples/internal/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m) }

// login is a client's config for a server with an unknown key.
var login = &ssh.ClientConfig{User: "nobody", HostKeyCallback: ssh.InsecureIgnoreHostKey()}

// terminal is a shell on the server, of the client in x/crypto.
type terminal struct {
	*ssh.Client
	in  io.Writer
	out *bufio.Reader
}

func open(t *testing.T, client *ssh.Client) *terminal {
	t.Cleanup(func() { client.Close() })
	session, err := client.NewSession()
	require.NoError(t, err)
	in, err := session.StdinPipe()
	require.NoError(t, err)
	out, err := session.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, session.Shell())
	return &terminal{client, in, bufio.NewReader(out)}
}

func (c *terminal) say(line string) error {
	if _, err := fmt.Fprintln(c.in, line); err != nil {
		return err
	}
	answer, err := c.out.ReadString('\n')
	if err == nil && answer != line+"\r\n" {
		err = fmt.Errorf("got %q", answer)
	}
	return err
}

func TestWhoAnswersStaysWithoutAWord(t *testing.T) {
	t.Parallel()
	s := exampletest.Serve(t, serve)
	client, err := ssh.Dial("tcp", s.Addr, login)
	require.NoError(t, err)
	c := open(t, client)
	exampletest.Talk(t, func() error { return c.say("hello") })
	time.Sleep(3 * exampletest.Timeout) // the client answers for itself
	require.NoError(t, c.say("still here"))
}

// A hanging program, or its kernel, takes the server's bytes and answers nothing.
func TestWhoDoesNotAnswerGoes(t *testing.T) {
	t.Parallel()
	s := exampletest.Serve(t, serve)
	raw, err := net.Dial("tcp", s.Addr)
	require.NoError(t, err)
	conn, channels, requests, err := ssh.NewClientConn(raw, s.Addr, login)
	require.NoError(t, err)
	unanswered := make(chan *ssh.Request, 100)
	go func() {
		defer close(unanswered)
		for r := range requests {
			unanswered <- r
		}
	}()
	none := make(chan *ssh.Request)
	close(none)
	c := open(t, ssh.NewClient(conn, channels, none))
	last := exampletest.Talk(t, func() error { return c.say("hello") })
	exampletest.Gone(t, last, exampletest.EOF(c.out))
	s.Logs(t, "reason=no_answer")
	require.Equal(t, "keepalive@openssh.com", (<-unanswered).Type)
	require.Error(t, c.Wait())
	for range unanswered {
	}
}

// Bytes are life. So a client may stay without an answer to any question, but not with a goroutine for each.
func TestWhoDoesNotAnswerIsAskedOneQuestionAtATime(t *testing.T) {
	s := exampletest.Serve(t, serve)
	raw, err := net.Dial("tcp", s.Addr)
	require.NoError(t, err)
	conn, _, requests, err := ssh.NewClientConn(raw, s.Addr, login)
	require.NoError(t, err)
	defer conn.Close()
	question := <-requests // after half of the timeout
	require.Equal(t, "keepalive@openssh.com", question.Type)
	for range 5 {
		_, _, err := conn.SendRequest("noise", false, nil)
		require.NoError(t, err)
		time.Sleep(exampletest.Timeout * 6 / 10)
	}
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	require.Equal(t, 1, strings.Count(string(stacks), "(*mux).SendRequest("))
}

func TestAClientHasFewSessions(t *testing.T) {
	t.Parallel()
	s := exampletest.Serve(t, serve)
	client, err := ssh.Dial("tcp", s.Addr, login)
	require.NoError(t, err)
	defer client.Close()
	var first ssh.Channel
	for i := range maxSessions {
		channel, requests, err := client.OpenChannel("session", nil)
		require.NoError(t, err)
		go ssh.DiscardRequests(requests)
		if i == 0 {
			first = channel
		}
	}
	_, _, err = client.OpenChannel("session", nil)
	var refused *ssh.OpenChannelError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, ssh.ResourceShortage, refused.Reason)

	require.NoError(t, first.Close())
	require.Eventually(t, func() bool {
		_, _, err := client.OpenChannel("session", nil)
		return err == nil
	}, exampletest.Late, exampletest.Beat, "one has ended")
}

func TestWhoDoesNotLogInGoes(t *testing.T) {
	t.Parallel()
	s := exampletest.Serve(t, serve)
	last := time.Now()
	c, err := net.Dial("tcp", s.Addr)
	require.NoError(t, err)
	defer c.Close()
	exampletest.Gone(t, last, exampletest.EOF(c))
	s.Logs(t, "reason=no_answer")
}

func TestExitEndsTheSession(t *testing.T) {
	t.Parallel()
	s := exampletest.Serve(t, serve)
	client, err := ssh.Dial("tcp", s.Addr, login)
	require.NoError(t, err)
	c := open(t, client)
	require.NoError(t, c.say("hello"))
	_, err = fmt.Fprintln(c.in, "exit")
	require.NoError(t, err)
	_, err = c.out.ReadString('\n')
	require.ErrorIs(t, err, io.EOF)
	require.NoError(t, c.Close())
	s.Logs(t, "reason=peer")
}

func TestInterruptWhileItStarts(t *testing.T) {
	t.Parallel()
	exampletest.Interrupt(t, serve)
}
