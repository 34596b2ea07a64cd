package e2e

import (
	"fmt"
	"syscall"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard-llm/switchyard/libs/discovery"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
)

// slowWriter stops a prefill worker in the middle of its writing until another has done the job.
// What it writes then changes neither the answer nor what is cached of it.
func (c *cluster) slowWriter(src *source) {
	b := c.prepare(1, func(int) request { return long(src, longTokens) })
	before := c.idle()
	wait := c.askAll(b)
	whole := longTokens * uint64(before.prefills[0].GetInstance().GetModel().GetKvRowBytes())
	i := c.holder(func(i int) bool {
		n := c.describePrefill(i).GetTransport().GetWrittenBytes() - before.prefills[i].GetTransport().GetWrittenBytes()
		return n > 0 && n < whole
	})
	name := fmt.Sprintf("prefill-%d", i)
	c.signal(name, syscall.SIGSTOP)
	placements := c.compare(b, wait())
	w := difference(decodesOnly(before), c.decodeState())
	c.expect("prefilled remotely", uint64(placements[generationv1.Placement_PLACEMENT_REMOTE]), 1)
	c.expect("tickets", w.granted, 2)
	c.expect("expired tickets", w.expired, 1)
	c.expect("commits", w.notesCommitted, 1)
	c.signal(name, syscall.SIGCONT)
	c.idle()
	c.compare(b, c.askAll(b)()) // from what is cached now
	c.expect("commits after that", difference(decodesOnly(before), c.decodeState()).notesCommitted, 2)
	c.idle()
}

// pausedAtTheEnd holds up a prefill worker's connection to NATS for longer than that waits for a
// sign of life, when all of a prompt is written and only the note is missing. The job comes
// again, to the other worker, and its second claim waits.
func (c *cluster) pausedAtTheEnd(src *source, gates []*gate) {
	b := c.prepare(1, func(int) request { return long(src, delayedTokens) })
	before := c.idle()
	wait := c.askAll(b)
	whole := delayedTokens * uint64(before.prefills[0].GetInstance().GetModel().GetKvRowBytes())
	i := c.holder(func(i int) bool {
		return c.describePrefill(i).GetTransport().GetWrittenBytes() == before.prefills[i].GetTransport().GetWrittenBytes()+whole
	})
	gates[i].held.Lock()
	c.eventually("the job came again and its claim was answered LATER", func() error {
		now, then := c.describePrefill(1-i).GetJobs(), before.prefills[1-i].GetJobs()
		if now.GetRedeliveries() == then.GetRedeliveries() || now.GetClaimsLater() == then.GetClaimsLater() {
			return fmt.Errorf("jobs %v", now)
		}
		return nil
	})
	gates[i].held.Unlock()
	placements := c.compare(b, wait())
	after := c.idle()
	w := difference(before, after)
	c.expect("prefilled remotely", uint64(placements[generationv1.Placement_PLACEMENT_REMOTE]), 1)
	c.expect("tickets", w.granted, 1)
	c.expect("commits", w.committed, 1)
	c.expect("commits of the one that had written it",
		after.prefills[i].GetJobs().GetCommitted()-before.prefills[i].GetJobs().GetCommitted(), 1)
	c.expect("prompt tokens computed", w.computed, delayedTokens)
}

// wrongEntries are what etcd may say of a worker that lives; an empty one is deleted.
var wrongEntries = []struct {
	name  string
	spoil func(*instancev1.Instance)
}{
	{"that is missing", nil},
	{"without metadata", func(i *instancev1.Instance) { i.Transfer = nil }},
	{"with nonsense for metadata", func(i *instancev1.Instance) { i.Transfer[0].Metadata = []byte("nonsense") }},
	{"of another incarnation", func(i *instancev1.Instance) { i.Incarnation = "0" }},
	{"at a stale address", func(i *instancev1.Instance) { i.Address = "127.0.0.1:1" }},
}

// wrongEntry spoils the entries of all workers. The answers stay right, the entries are
// repaired, and prompts are computed remotely as before.
func (c *cluster) wrongEntry(src *source, spoil func(*instancev1.Instance)) {
	b := c.prepare(8, func(int) request { return src.next() })
	before := c.idle()
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{c.etcd}})
	if err != nil {
		c.t.Fatal(err)
	}
	defer etcd.Close()
	for i := range c.decodes {
		c.spoil(etcd, before.decodes[i].GetInstance(), spoil)
	}
	for i := range c.prefills {
		c.spoil(etcd, before.prefills[i].GetInstance(), spoil)
	}
	c.compare(b, c.askAll(b)())
	probe := newSource(97, 100)
	c.eventually("prompts are computed remotely again", func() error {
		a, err := c.ask(c.t.Context(), request{prompt: probe.tokens(40), maxTokens: 1}, nil)
		if err == nil && a.served.GetPlacement() != generationv1.Placement_PLACEMENT_REMOTE {
			err = fmt.Errorf("placed %v", a.served.GetPlacement())
		}
		return err
	})
	c.idle()
}

func (c *cluster) spoil(etcd *clientv3.Client, in *instancev1.Instance, spoil func(*instancev1.Instance)) {
	c.t.Helper()
	key := discovery.InstanceKey(in.GetRole(), in.GetId())
	var err error
	if spoil == nil {
		_, err = etcd.Delete(c.t.Context(), key)
	} else {
		in = proto.CloneOf(in)
		spoil(in)
		var data []byte
		if data, err = proto.Marshal(in); err == nil {
			_, err = etcd.Put(c.t.Context(), key, string(data))
		}
	}
	if err != nil {
		c.t.Fatal(err)
	}
}
