// Package redisserver is a Redis for measurements, that can be asked what it has used.
package redisserver

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/heartwheel-go/heartwheel/internal/redisserver"
)

// Server runs until Stop.
type Server struct {
	*redisserver.Server
	Version string
	Client  *redis.Client
}

// Start starts a server, and waits until it answers.
func Start(ctx context.Context) (s *Server, err error) {
	s = new(Server)
	if s.Server, err = redisserver.Start(ctx); err != nil {
		return nil, err
	}
	s.Client = redis.NewClient(&redis.Options{Addr: s.Addr, ReadTimeout: time.Minute}) // it may have much to forget
	if s.Version, err = s.field(ctx, "server", "redis_version"); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// Stop ends the server.
func (s *Server) Stop() {
	_ = s.Client.Close()
	s.Server.Stop()
}

// UsedMemory returns how many bytes it has allocated.
func (s *Server) UsedMemory(ctx context.Context) (float64, error) {
	return s.number(ctx, "memory", "used_memory")
}

// Processor returns its processor time in seconds.
func (s *Server) Processor(ctx context.Context) (float64, error) {
	user, err1 := s.number(ctx, "cpu", "used_cpu_user")
	system, err2 := s.number(ctx, "cpu", "used_cpu_sys")
	return user + system, errors.Join(err1, err2)
}

func (s *Server) number(ctx context.Context, section, name string) (float64, error) {
	text, err := s.field(ctx, section, name)
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(text, 64)
}

// field returns what the server says of itself.
func (s *Server) field(ctx context.Context, section, name string) (string, error) {
	said, err := s.Client.Info(ctx, section).Result()
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(said) {
		if text, found := strings.CutPrefix(strings.TrimSpace(line), name+":"); found {
			return text, nil
		}
	}
	return "", fmt.Errorf("redis-server does not say its %s", name)
}
