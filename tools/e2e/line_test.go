package e2e

import (
	"fmt"
	"sync"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/engine/cpu/cputest"
	"github.com/switchyard-llm/switchyard/libs/nixl/capi"
	"github.com/switchyard-llm/switchyard/libs/nixl/capi/capitest"
	"github.com/switchyard-llm/switchyard/libs/worker"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	prefillworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/prefillworker/v1"
	"github.com/switchyard-llm/switchyard/services/decodeworker/disagg"
)

// reference is the salt under which the answers to compare with are computed, so that
// they share no block with what is compared.
const reference = "reference"

// local has every prompt computed where it is decoded.
var (
	local  = disagg.Policy{Policy: disagg.Never}
	remote = disagg.Policy{Policy: disagg.Always}
)

// setPolicy sets the policy and waits until both decode workers follow it.
func (c *cluster) setPolicy(p disagg.Policy, want generationv1.Placement) {
	c.t.Helper()
	c.policy(p)
	probe := newSource(99, 100)
	for i := range c.decodes {
		c.eventually("the policy is in force", func() error {
			stream, err := c.decodes[i].Generate(c.t.Context(), &decodeworkerv1.GenerateRequest{Sequence: &generationv1.Sequence{
				Prompt: probe.tokens(20), MaxTokens: 1, CacheSalt: "probe", Sampling: &generationv1.Sampling{},
			}})
			if err != nil {
				return err
			}
			for {
				m, err := stream.Recv()
				if err != nil {
					return err
				}
				if e := m.GetEnded(); e != nil {
					if e.GetPlacement() != want {
						return fmt.Errorf("decode-%d placed it %v", i, e.GetPlacement())
					}
					return nil
				}
			}
		})
	}
}

// all asks requests side by side, at most width at once.
func (c *cluster) all(requests []request, width int) []answer {
	c.t.Helper()
	answers, errs := make([]answer, len(requests)), make([]error, len(requests))
	slots := make(chan struct{}, width)
	var work sync.WaitGroup
	for i, r := range requests {
		slots <- struct{}{}
		work.Go(func() {
			answers[i], errs[i] = c.ask(c.t.Context(), r, nil)
			<-slots
		})
	}
	work.Wait()
	for i, err := range errs {
		if err != nil {
			c.t.Errorf("request %d: %v", i, err)
		}
	}
	if c.t.Failed() {
		c.t.FailNow()
	}
	return answers
}

// references answers the requests with policy never and under the reference salt.
func (c *cluster) references(requests []request) []answer {
	c.t.Helper()
	c.setPolicy(local, generationv1.Placement_PLACEMENT_LOCAL)
	salted := make([]request, len(requests))
	for i, r := range requests {
		r.salt = reference
		salted[i] = r
	}
	return c.all(salted, 8)
}

// state is what all workers say at one moment.
type state struct {
	decodes  []*decodeworkerv1.DescribeResponse
	prefills []*prefillworkerv1.DescribeResponse
}

func (c *cluster) state() (s state) {
	c.t.Helper()
	for i := range c.decodes {
		s.decodes = append(s.decodes, c.describeDecode(i))
	}
	for i := range c.prefills {
		s.prefills = append(s.prefills, c.describePrefill(i))
	}
	return s
}

// pools are all pools of a state.
func (s state) pools() map[string]*instancev1.PoolReport {
	out := make(map[string]*instancev1.PoolReport)
	for _, d := range s.decodes {
		out[d.GetInstance().GetId()] = d.GetPool()
	}
	for _, p := range s.prefills {
		out[p.GetInstance().GetId()] = p.GetPool()
	}
	return out
}

// idle waits until every block of every pool is free or cached.
func (c *cluster) idle() state {
	c.t.Helper()
	var s state
	c.eventually("all blocks are back", func() error {
		s = c.state()
		for id, pool := range s.pools() {
			rest := pool.GetCapacityBlocks()
			for _, b := range pool.GetStates() {
				switch b.GetState() {
				case instancev1.BlockState_BLOCK_STATE_FREE, instancev1.BlockState_BLOCK_STATE_SEALED:
					rest -= b.GetBlocks()
				}
			}
			if rest != 0 || pool.GetBookedBlocks() != 0 {
				return fmt.Errorf("%s: %v", id, pool)
			}
		}
		return nil
	})
	return s
}

func TestRemotePrefillGivesTheAnswersOfLocalPrefill(t *testing.T) {
	for _, transport := range []string{worker.Shm, worker.TCP, worker.NIXL} {
		t.Run(transport, func(t *testing.T) {
			if transport == worker.NIXL {
				overLoopback(t)
			}
			remoteLikeLocal(t, transport)
		})
	}
}

// overLoopback gives the processes of a test NVIDIA's library, over TCP within this machine.
func overLoopback(t *testing.T) {
	t.Helper()
	library, err := capitest.Library(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(capi.EnvLibrary, library)
	t.Setenv("UCX_TLS", "tcp,self")
	t.Setenv("UCX_NET_DEVICES", "lo")
}

func remoteLikeLocal(t *testing.T, transport string) {
	shape := cputest.Tiny()
	c := start(t, options{
		shape:   shape,
		decode:  func(_ int, d *decodeConfig) { d.Transport = transport },
		prefill: func(_ int, p *prefillConfig) { p.Transport = transport },
	})
	src := newSource(1, shape.VocabTokens)
	var requests []request
	for range requestsMax {
		requests = append(requests, src.next())
	}
	want := c.references(requests)

	c.setPolicy(remote, generationv1.Placement_PLACEMENT_REMOTE)
	before := c.idle()
	var got []answer
	var after state
	var done work
	// Which prefill worker takes a job is chance, so it takes some traffic until every
	// relation of the two hits was there often enough.
	for len(got) < requestsMax && (len(got) < requestsMin || !done.hitsSeen()) {
		got = append(got, c.all(requests[len(got):len(got)+round], 6)...)
		after = c.idle()
		done = difference(before, after)
	}
	for i := range got {
		if err := same(got[i], want[i]); err != nil {
			t.Errorf("request %d (%d tokens, %s): %v", i, len(requests[i].prompt), got[i].served.GetPlacement(), err)
		}
	}
	checkPlacements(t, got)
	t.Logf("%+v", done)
	done.check(t, len(got))
	checkStatesSeen(t, after)
}

const (
	requestsMin = 120
	requestsMax = 600
	round       = 60
)

// hitsSeen says that each relation of the decode and the prefill worker's hits was seen
// at least ten times.
func (w work) hitsSeen() bool { return min(w.longer, w.shorter, w.equal) >= 10 }

func checkPlacements(t *testing.T, answers []answer) {
	t.Helper()
	decodes, prefills, remotes := map[string]int{}, map[string]int{}, 0
	for _, a := range answers {
		decodes[a.served.GetDecodeWorker()]++
		if a.served.GetPlacement() == generationv1.Placement_PLACEMENT_REMOTE {
			remotes++
			prefills[a.served.GetPrefillWorker()]++
		}
	}
	t.Logf("%d of %d remote; decode workers %v, prefill workers %v", remotes, len(answers), decodes, prefills)
	if remotes*3 < len(answers)*2 {
		t.Errorf("%d of %d requests were prefilled remotely, want two thirds", remotes, len(answers))
	}
	if len(decodes) != 2 || len(prefills) != 2 {
		t.Errorf("decode workers %v and prefill workers %v were used, want two of each", decodes, prefills)
	}
	for id, n := range prefills {
		if n < 10 {
			t.Errorf("%s prefilled %d requests, want at least 10", id, n)
		}
	}
}

// work is what the workers did between two states.
type work struct {
	remote, fallback, received                 uint64 // decode side
	decodePrompt                               uint64
	longer, shorter, equal                     uint64
	committed, prompt, own, read               uint64 // prefill side
	computed, written                          uint64
	enginePrompt                               uint64
	writtenBytes, readBytes                    uint64
	poisoned                                   uint64
	granted, expired, stale, gone              uint64
	claimsGone, notesCommitted, byWord, fenced uint64
	cancelled, deadlines, local                uint64
	rowBytes                                   uint64
}

func difference(before, after state) (w work) {
	for _, sign := range []struct {
		s   state
		add func(to *uint64, n uint64)
	}{{after, func(to *uint64, n uint64) { *to += n }}, {before, func(to *uint64, n uint64) { *to -= n }}} {
		for _, d := range sign.s.decodes {
			h := d.GetHandOff()
			sign.add(&w.remote, h.GetRemote())
			sign.add(&w.fallback, h.GetFallback())
			sign.add(&w.received, h.GetReceivedTokens())
			sign.add(&w.longer, h.GetDecodeHitLonger())
			sign.add(&w.shorter, h.GetPrefillHitLonger())
			sign.add(&w.equal, h.GetHitsEqual())
			sign.add(&w.granted, h.GetClaimsGranted())
			sign.add(&w.expired, h.GetTicketsExpired())
			sign.add(&w.stale, h.GetNotesStale())
			sign.add(&w.gone, h.GetNotesGone())
			sign.add(&w.claimsGone, h.GetClaimsGone())
			sign.add(&w.notesCommitted, h.GetNotesCommitted())
			sign.add(&w.byWord, h.GetQuarantineSettledByWord())
			sign.add(&w.fenced, h.GetQuarantineSettledByFence())
			sign.add(&w.cancelled, h.GetCancelled())
			sign.add(&w.deadlines, h.GetDeadlinePassed())
			sign.add(&w.local, h.GetLocal())
			sign.add(&w.decodePrompt, d.GetLoad().GetComputedPromptTokens())
			sign.add(&w.poisoned, d.GetPool().GetPoisonedBlocks())
			w.rowBytes = uint64(d.GetInstance().GetModel().GetKvRowBytes())
		}
		for _, p := range sign.s.prefills {
			j := p.GetJobs()
			sign.add(&w.committed, j.GetCommitted())
			sign.add(&w.prompt, j.GetPromptTokens())
			sign.add(&w.own, j.GetOwnHitTokens())
			sign.add(&w.read, j.GetReadTokens())
			sign.add(&w.computed, j.GetComputedTokens())
			sign.add(&w.written, j.GetWrittenTokens())
			sign.add(&w.enginePrompt, p.GetLoad().GetComputedPromptTokens())
			sign.add(&w.writtenBytes, p.GetTransport().GetWrittenBytes())
			sign.add(&w.readBytes, p.GetTransport().GetReadBytes())
		}
	}
	return w
}

// check holds the counters of an undisturbed run against each other.
func (w work) check(t *testing.T, requests int) {
	t.Helper()
	for _, c := range []struct {
		what      string
		got, want uint64
	}{
		{"sequences prefilled remotely", w.remote, uint64(requests)},
		{"fallbacks", w.fallback, 0},
		{"jobs committed", w.committed, uint64(requests)},
		{"claims granted", w.granted, uint64(requests)},
		{"prompt tokens computed by decode workers", w.decodePrompt, 0},
		{"prompt tokens computed by the prefill engines (prompt - the longer hit)", w.enginePrompt, w.prompt - w.own - w.read},
		{"prompt tokens the jobs say they computed", w.computed, w.enginePrompt},
		{"rows written", w.written, w.received},
		{"bytes written (rows the decode workers lacked)", w.writtenBytes, w.received * w.rowBytes},
		{"bytes read (what only the decode workers had)", w.readBytes, w.read * w.rowBytes},
		{"tickets expired", w.expired, 0}, {"stale notes", w.stale, 0}, {"gone notes", w.gone, 0},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", c.what, c.got, c.want)
		}
	}
	for what, n := range map[string]uint64{
		"decode hit longer": w.longer, "prefill hit longer": w.shorter, "hits equal above 0": w.equal,
	} {
		if n < 10 {
			t.Errorf("%s: %d requests, want at least 10", what, n)
		}
	}
	if w.computed < uint64(requests) {
		t.Errorf("%d tokens were computed for %d requests, want at least one each", w.computed, requests)
	}
	if w.poisoned == 0 {
		t.Error("no block was poisoned")
	}
}

// checkStatesSeen fails for a state that no pool was ever in.
func checkStatesSeen(t *testing.T, s state) {
	t.Helper()
	seen := make(map[instancev1.BlockState]uint32)
	for _, pool := range s.pools() {
		for _, b := range pool.GetStates() {
			seen[b.GetState()] = max(seen[b.GetState()], b.GetHighWaterBlocks())
		}
	}
	for value, name := range instancev1.BlockState_name {
		state := instancev1.BlockState(value)
		if state != instancev1.BlockState_BLOCK_STATE_UNSPECIFIED && state != instancev1.BlockState_BLOCK_STATE_QUARANTINE && seen[state] == 0 {
			t.Errorf("no block was ever in %s", name)
		}
	}
	t.Logf("most blocks in each state: %v", seen)
}
