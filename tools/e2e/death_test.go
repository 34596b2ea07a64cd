package e2e

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/switchyard-llm/switchyard/libs/worker"
)

// phase is how far a remote prefill has come, as its two workers tell.
type phase struct {
	name string
	// reached compares bytes written and notes committed since the request with the prompt's bytes.
	reached func(written, committed, whole uint64) bool
}

var phases = []phase{
	// A worker that computes a prompt writes it at the same time.
	{"computing and writing", func(written, _, whole uint64) bool { return written > 0 && written < whole }},
	{"before its note", func(written, committed, whole uint64) bool { return written == whole && committed == 0 }},
	{"after its note", func(_, committed, _ uint64) bool { return committed > 0 }},
}

// TestDeathsInEveryPhase kills one of the two workers of a hand-off. The answer is the one
// that an undisturbed run gives, the worker comes back at its address, and every block is back.
func TestDeathsInEveryPhase(t *testing.T) {
	for _, transport := range []string{worker.Shm, worker.TCP} {
		t.Run(transport, func(t *testing.T) {
			if transport != worker.Shm {
				nightly(t)
			}
			c := start(t, options{
				shape: slowShape(),
				decode: func(_ int, d *decodeConfig) {
					d.Transport, d.HandOff.Lease, d.Queue.AckWait, d.Pool.PoolTokens = transport, lease, ackWait, 16384
				},
				prefill: func(_ int, p *prefillConfig) {
					p.Transport, p.Queue.AckWait, p.NoteDelay, p.NoteDelayTokens = transport, ackWait, 500*time.Millisecond, longTokens
				},
			})
			src := newSource(4, slowShape().VocabTokens)
			t.Run("a prefill worker while the job is queued", func(t *testing.T) { c.with(t).killedWhileQueued(src, "prefill") })
			t.Run("a decode worker while its job is queued", func(t *testing.T) { c.with(t).killedWhileQueued(src, "decode") })
			for _, p := range phases {
				for _, victim := range []string{"prefill", "decode"} {
					t.Run(victim+" worker "+p.name, func(t *testing.T) { c.with(t).killedIn(src, p, victim) })
				}
			}
		})
	}
}

func (c *cluster) killedIn(src *source, p phase, victim string) {
	b := c.prepare(1, func(int) request { return long(src, longTokens) })
	before := c.idle()
	wait := c.askAll(b)
	prefill, decode := c.reach(p, before)
	name := fmt.Sprintf("%s-%d", victim, map[string]int{"prefill": prefill, "decode": decode}[victim])
	c.kill(name)
	c.compare(b, wait())
	c.again(name)
	c.idle()
}

// killedWhileQueued kills a worker while no prefill worker takes the job.
func (c *cluster) killedWhileQueued(src *source, victim string) {
	b := c.prepare(1, func(int) request { return long(src, longTokens) })
	before := c.idle()
	for i := range c.prefills {
		c.signal(fmt.Sprintf("prefill-%d", i), syscall.SIGSTOP)
	}
	wait := c.askAll(b)
	decode := -1
	c.eventually("a decode worker waits", func() error {
		for j := range c.decodes {
			if pool := c.describeDecode(j).GetPool(); pool.GetBookedBlocks() > before.decodes[j].GetPool().GetBookedBlocks() {
				decode = j
				return nil
			}
		}
		return errors.New("none does")
	})
	name := fmt.Sprintf("%s-%d", victim, map[string]int{"prefill": 0, "decode": decode}[victim])
	c.kill(name)
	for i := range c.prefills {
		if other := fmt.Sprintf("prefill-%d", i); other != name {
			c.signal(other, syscall.SIGCONT)
		}
	}
	c.compare(b, wait())
	c.again(name)
	c.idle()
}

// reach waits for a phase and answers the numbers of the prefill and the decode worker.
func (c *cluster) reach(p phase, before state) (prefill, decode int) {
	c.t.Helper()
	decode = -1
	prefill = c.holder(func(i int) bool {
		now, then := c.describePrefill(i), before.prefills[i]
		if now.GetJobs().GetClaimsGranted() == then.GetJobs().GetClaimsGranted() {
			return false
		}
		for j := range c.decodes {
			d := c.describeDecode(j).GetHandOff()
			if d.GetClaimsGranted() == before.decodes[j].GetHandOff().GetClaimsGranted() {
				continue
			}
			decode = j
			return p.reached(now.GetTransport().GetWrittenBytes()-then.GetTransport().GetWrittenBytes(),
				d.GetNotesCommitted()-before.decodes[j].GetHandOff().GetNotesCommitted(),
				longTokens*uint64(then.GetInstance().GetModel().GetKvRowBytes()))
		}
		return false
	})
	return prefill, decode
}
