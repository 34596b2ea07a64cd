package e2e

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

// underLoad is how many requests run beside a drain.
const underLoad = 16

// streaming is a request that takes a while to decode.
func streaming(src *source, prompt int) request {
	return request{prompt: src.tokens(prompt), maxTokens: 300, temperature: 0.8, seed: src.rnd.Uint64()}
}

// working waits until a decode worker has made so many tokens more than before.
func (c *cluster) working(i int, before state, tokens uint64) {
	c.t.Helper()
	c.eventually(fmt.Sprintf("decode-%d is decoding", i), func() error {
		now, then := c.describeDecode(i).GetLoad(), before.decodes[i].GetLoad()
		if n := now.GetGeneratedTokens() - then.GetGeneratedTokens(); n < tokens || now.GetRunningSequences() == 0 {
			return fmt.Errorf("%d tokens, load %v", n, now)
		}
		return nil
	})
}

// prefillDrains ends a prefill worker while it computes: what it has taken it finishes, the
// rest the other takes, and nothing is computed at a decode worker.
func (c *cluster) prefillDrains(src *source) {
	b := c.prepare(underLoad, func(int) request { return long(src, 300) })
	before := c.idle()
	wait := c.askAll(b)
	c.holder(func(i int) bool {
		return i == 0 && c.describePrefill(0).GetJobs().GetClaimsGranted() > before.prefills[0].GetJobs().GetClaimsGranted()
	})
	c.terminate("prefill-0")
	placements := c.compare(b, wait())
	c.expect("prefilled remotely", uint64(placements[generationv1.Placement_PLACEMENT_REMOTE]), underLoad)
	c.again("prefill-0")
	w := difference(decodesOnly(before), decodesOnly(c.idle()))
	c.expect("claims granted", w.granted, underLoad)
	c.expect("notes committed", w.notesCommitted, underLoad)
	c.expect("expired tickets", w.expired, 0)
}

// decodeDrains ends a decode worker that has time to drain: its sequences end there, those
// among them that wait for their remote prefill as well.
func (c *cluster) decodeDrains(src *source) {
	b := c.prepare(underLoad, func(int) request { return streaming(src, 200) })
	before := c.idle()
	wait := c.askAll(b)
	c.working(0, before, 1)
	c.signal("decode-0", syscall.SIGTERM)
	late := c.askAll(batch{requests: b.requests[:2]})
	got := wait()
	placements := c.compare(b, got)
	c.compare(batch{want: b.want[:2]}, late())
	c.ended("decode-0")
	served := 0
	for _, a := range got {
		if a.served.GetDecodeWorker() == "decode-0" {
			served++
		}
	}
	c.t.Logf("%d of %d ended at the worker that drained; %v", served, len(got), placements)
	if served == 0 {
		c.t.Error("no sequence ended at the worker that drained")
	}
	c.expect("prefilled remotely", uint64(placements[generationv1.Placement_PLACEMENT_REMOTE]), underLoad)
	c.again("decode-0")
	c.idle()
}

// drainTimeEnds ends a decode worker that has no time to drain: its sequences go on at the other.
func (c *cluster) drainTimeEnds(src *source) {
	b := c.prepare(3*underLoad, func(int) request { return streaming(src, 100) }).longest(underLoad)
	before := c.idle()
	wait := c.askAll(b)
	c.working(1, before, 20)
	c.signal("decode-1", syscall.SIGTERM)
	c.ended("decode-1")
	got := wait()
	c.compare(b, got)
	c.moved(0, before, got)
	c.again("decode-1")
	c.idle()
}

// moved fails unless answers that ended at a decode worker were begun elsewhere: it made
// fewer tokens than they have.
func (c *cluster) moved(to int, before state, got []answer) {
	c.t.Helper()
	name, tokens := fmt.Sprintf("decode-%d", to), uint64(0)
	for _, a := range got {
		if a.served.GetDecodeWorker() == name {
			tokens += uint64(a.usage.GetCompletionTokens())
		}
	}
	made := c.describeDecode(to).GetLoad().GetGeneratedTokens() - before.decodes[to].GetLoad().GetGeneratedTokens()
	c.t.Logf("%s made %d of the %d tokens of the answers that ended there", name, made, tokens)
	if made >= tokens {
		c.t.Errorf("no answer moved to %s", name)
	}
}

// longest are the n requests with the most tokens in their answers: the others may end
// before anything can happen to them.
func (b batch) longest(n int) (out batch) {
	order := make([]int, len(b.want))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		return cmp.Compare(b.want[j].usage.GetCompletionTokens(), b.want[i].usage.GetCompletionTokens())
	})
	for _, i := range order[:n] {
		out.requests, out.want = append(out.requests, b.requests[i]), append(out.want, b.want[i])
	}
	return out
}

// killedInMidStream kills a decode worker after the first pieces of its streams. What the
// clients see is the whole answer, with no token lost or repeated.
func (c *cluster) killedInMidStream(src *source) {
	b := c.prepare(32, func(int) request { return streaming(src, 100) }).longest(4)
	before := c.idle()
	got, errs := make([]answer, len(b.requests)), make([]error, len(b.requests))
	var begun atomic.Int32
	var streams sync.WaitGroup
	all := make(chan struct{})
	for i, r := range b.requests {
		streams.Go(func() {
			chunks := 0
			got[i], errs[i] = c.ask(c.t.Context(), r, func() {
				if chunks++; chunks == 3 && int(begun.Add(1)) == len(b.requests) {
					close(all)
				}
			})
		})
	}
	<-all
	victim := 0
	if c.describeDecode(0).GetLoad().GetRunningSequences() == 0 {
		victim = 1
	}
	name := fmt.Sprintf("decode-%d", victim)
	c.kill(name)
	streams.Wait()
	for i := range got {
		if errs[i] != nil {
			c.t.Errorf("request %d: %v", i, errs[i])
		}
		if got[i].served.GetDecodeWorker() == name {
			c.t.Errorf("request %d had ended before its worker was killed", i)
		}
	}
	c.compare(b, got)
	c.moved(1-victim, before, got)
	c.again(name)
	c.idle()
}
