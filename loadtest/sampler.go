package main

import "time"

// sample is what the processes use at a moment, and have used since the one before.
type sample struct {
	at                         time.Duration // since the start of the run
	serverCores, cores, others float64       // of the servers, of this program, of all else
	serverBytes, bytes         int64         // resident
}

// sampleEvery takes samples until the call of stop, and returns them there.
func (m *meter) sampleEvery(d time.Duration, start time.Time) (stop func() []sample) {
	quit, done := make(chan struct{}), make(chan struct{})
	var samples []sample
	go func() {
		defer close(done)
		ticker := time.NewTicker(d)
		defer ticker.Stop()
		before := m.read()
		for {
			select {
			case <-quit:
				return
			case <-ticker.C:
			}
			now := m.read()
			s := sample{at: now.at.Sub(start)}
			s.serverCores, s.cores, s.others = before.cores(now)
			s.serverBytes, s.bytes = m.resident()
			samples = append(samples, s)
			before = now
		}
	}()
	return func() []sample {
		close(quit)
		<-done
		return samples
	}
}
