package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/certtest"
	"github.com/heartwheel-go/heartwheel/internal/logtest"
	"github.com/heartwheel-go/heartwheel/internal/testmain"
)

const timeout = 2 * time.Second // such as a client keeps on a busy machine

func TestMain(m *testing.M) { testmain.Run(m) }

func TestOnlySilentPeersLeave(t *testing.T) {
	var logged logtest.Log
	log.SetOutput(&logged)
	defer log.SetOutput(os.Stderr)
	cert, pool := certtest.New(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := ln.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, ln, cert, timeout) }()

	lines := watch(t, addr, pool)
	ann, bob := dial(t, addr, pool, "ann"), dial(t, addr, pool, "bob")
	another := dial(t, addr, pool, "bob")
	_, refused, err := (&websocket.Dialer{TLSClientConfig: &tls.Config{RootCAs: pool}}).Dial("wss://"+addr+"/write?name=bob", nil)
	require.ErrorIs(t, err, websocket.ErrBadHandshake)
	defer refused.Body.Close()
	require.Equal(t, http.StatusTooManyRequests, refused.StatusCode)
	require.Equal(t, "60", refused.Header.Get("Retry-After"))
	require.NoError(t, another.Close())
	read := make(chan error, 1)
	go func() { // ann only answers pings
		_, _, err := ann.ReadMessage()
		read <- err
	}()
	idle, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: pool})
	require.NoError(t, err)
	defer idle.Close()
	began := time.Now()
	_, err = io.WriteString(idle, "GET /nothing HTTP/1.1\r\nHost: wall\r\n\r\n")
	require.NoError(t, err)
	_, _ = io.Copy(io.Discard, idle) // until the end
	require.GreaterOrEqual(t, time.Since(began), timeout)

	time.Sleep(time.Until(began.Add(3 * timeout))) // bob reads nothing, so he answers no ping
	_, _, err = bob.ReadMessage()
	var closed *websocket.CloseError
	require.ErrorAs(t, err, &closed)
	require.Equal(t, websocket.CloseError{Code: websocket.CloseGoingAway, Text: "no_answer"}, *closed)

	require.NoError(t, ann.WriteMessage(websocket.TextMessage, []byte("still here")))
	for lines.Text() != "data: still here" {
		require.True(t, lines.Scan(), "the stream has ended: %v", lines.Err())
	}

	stop()
	require.NoError(t, <-ended)
	require.ErrorAs(t, <-read, &closed)
	require.Equal(t, "drain", closed.Text)
	logged.Await(t, "bob has left: keepalive: no answer to probes")
}

func dial(t *testing.T, addr string, pool *x509.CertPool, name string) *websocket.Conn {
	dialer := websocket.Dialer{TLSClientConfig: &tls.Config{RootCAs: pool}}
	ws, resp, err := dialer.Dial("wss://"+addr+"/write?name="+name, nil)
	require.NoError(t, err)
	resp.Body.Close()
	t.Cleanup(func() { ws.Close() })
	return ws
}

func watch(t *testing.T, addr string, pool *x509.CertPool) *bufio.Scanner {
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
	t.Cleanup(tr.CloseIdleConnections)
	resp, err := (&http.Client{Transport: tr}).Get("https://" + addr + "/events")
	require.NoError(t, err)
	require.Equal(t, 2, resp.ProtoMajor)
	t.Cleanup(func() { resp.Body.Close() })
	return bufio.NewScanner(resp.Body)
}

func TestStoppedBeforeItServes(t *testing.T) {
	cert, _ := certtest.New(t)
	ctx, stop := context.WithCancel(context.Background())
	stop()
	for range 20 {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		require.NoError(t, Serve(ctx, ln, cert, timeout))
	}
}
