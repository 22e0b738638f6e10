package connpool

import "time"

// A pool closes connections in the background, checks those kept for MinIdle, and reports leaks. A
// function of the user may hang there, and must hold up neither the wheel, nor another pool, nor a
// Get. So each pool has goroutines for it, as long as there is something to do: at most as many as
// the Group has workers, and as many again for each second in which a job waits for the others.

// waitForHelp is how long a job waits until there are more goroutines.
const waitForHelp = time.Second

// background has goroutines for the jobs of a pool. Pool.mu guards it.
type background struct {
	jobs    []func() // not begun yet
	running int      // goroutines
	most    int      // of them for now
	help    *time.Timer
}

// begin starts a job in the background. The job is called with p.mu held, and may release it
// meanwhile. Close of the pool waits for it. p.mu must be held.
func (p *Pool[T]) begin(job func()) {
	p.working++
	p.background.jobs = append(p.background.jobs, job)
	p.employ(1)
}

// employ starts up to n goroutines. If there may not be as many, it calls for help. p.mu must be
// held.
func (p *Pool[T]) employ(n int) {
	b := &p.background
	start := min(n, b.most-b.running)
	for range start {
		b.running++
		go p.work()
	}
	if start < n && b.help == nil {
		b.help = time.AfterFunc(waitForHelp, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			b.help = nil
			if len(b.jobs) > 0 {
				b.most += p.group.workers
				p.employ(len(b.jobs))
			}
		})
	}
}

// work does jobs until there is none left.
func (p *Pool[T]) work() {
	b := &p.background
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() {
		if len(b.jobs) > 0 { // a function of the user has called runtime.Goexit
			go p.work()
			return
		}
		b.running--
		if b.help != nil {
			b.help.Stop()
			b.help = nil
		}
		if b.most-b.running > p.group.workers {
			b.most = b.running + p.group.workers // beside those that hang
		}
	}()
	for len(b.jobs) > 0 {
		job := b.jobs[0]
		b.jobs[0] = nil
		if b.jobs = b.jobs[1:]; len(b.jobs) == 0 {
			b.jobs = nil
		}
		p.do(job)
	}
}

func (p *Pool[T]) do(job func()) {
	defer p.worked()
	job()
}

// worked notes the end of a dial or a job. p.mu must be held.
func (p *Pool[T]) worked() {
	p.working--
	p.less.Broadcast()
}
