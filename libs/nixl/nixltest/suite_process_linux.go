package nixltest

import (
	"bytes"
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
)

// RunProcesses runs the suite with peers in processes of their own, and what only a
// process can do: be killed and be frozen.
func RunProcesses(t *testing.T, tr Transport) {
	if testing.Short() {
		t.Skip("Run covers the same code in one process")
	}
	runShared(t, tr, func(t *testing.T, name, incarnation, folder string) *peer {
		return &startChild(t, name, incarnation, folder).peer
	})
	for name, test := range map[string]func(*testing.T, Transport){
		"a killed writer is proven quiet":     testKilledWriter,
		"a frozen writer is no proof":         testFrozenWriter,
		"a killed target ends its transfers":  testKilledTarget,
		"a frozen target does not block":      testFrozenTarget,
		"a killed peer restarts at its place": testKilledRestart,
		"memory is moved away from a writer":  testRetire,
	} {
		t.Run(name, func(t *testing.T) { test(t, tr) })
	}
}

// flooded is a target into which a process writes all the time.
func flooded(t *testing.T, tr Transport) (*host, *child) {
	folder := Folder(t)
	target := tr.start(t, "decode", "1", folder)
	writer := startChild(t, "prefill", "1", folder)
	id := writer.add(target)
	writer.must(Command{Do: "flood", Request: nixl.Request{Peer: id, Copies: firstBlocks(blocks)}})
	for writer.must(Command{Do: "stats"}).Stats.Transfers < 3 {
		writer.notify(id, "still writing")
		target.receive(t)
	}
	return target, writer
}

func (c *child) signal(s syscall.Signal) {
	c.t.Helper()
	if err := c.process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

// addedBy makes a host a peer of this process that may touch all of its blocks.
func (c *child) addedBy(h *host) nixl.PeerID {
	c.t.Helper()
	c.must(Command{Do: "allow", Peer: h.agent.ID()})
	id, err := h.agent.AddPeer(lasting(c.t, patience), c.metadata())
	if err != nil {
		c.t.Fatal(err)
	}
	return id
}

// freeze stops the process and waits until it has stopped.
func (c *child) freeze() {
	c.t.Helper()
	c.signal(syscall.SIGSTOP)
	if err := unix.Waitid(unix.P_PID, c.process.Pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil); err != nil {
		c.t.Fatalf("wait for the freeze: %v", err)
	}
}

func testKilledWriter(t *testing.T, tr Transport) {
	target, writer := flooded(t, tr)
	if !tr.FencesLiving {
		within(t, target.agent.Fence(ended(), writer.id), nixl.ErrStillAlive)
	}
	writer.signal(syscall.SIGKILL)
	if err := target.agent.Fence(lasting(t, patience), writer.id); err != nil {
		t.Fatalf("fence of a killed writer: %v", err)
	}
	before := bytes.Clone(target.region.Bytes())
	target.wantGone(t, writer.id)
	if err := writer.wait(); err == nil {
		t.Fatal("the killed writer ended well")
	}
	if !bytes.Equal(before, target.region.Bytes()) {
		t.Fatal("bytes changed after the proof")
	}
}

func testFrozenWriter(t *testing.T, tr Transport) {
	target, writer := flooded(t, tr)
	writer.freeze()
	if !tr.FencesLiving {
		within(t, target.agent.Fence(ended(), writer.id), nixl.ErrStillAlive)
		within(t, target.agent.Fence(lasting(t, 100*time.Millisecond), writer.id), nixl.ErrStillAlive)
	}
	// Notes to it fill its socket and the queue, and then end at their deadline.
	var err error
	for ctx := lasting(t, 300*time.Millisecond); err == nil; {
		err = target.agent.Notify(ctx, writer.id, make([]byte, nixl.MaxNoteBytes))
	}
	within(t, err, context.DeadlineExceeded)
	if tr.FencesLiving {
		fenceFrozen(t, target, writer)
		return
	}
	writer.signal(syscall.SIGCONT)
	writer.must(Command{Do: "receive"}) // it goes on
	writer.freeze()
	writer.signal(syscall.SIGKILL) // ends a frozen process, too
	if err := target.agent.Fence(lasting(t, patience), writer.id); err != nil {
		t.Fatalf("fence of a killed writer: %v", err)
	}
	target.wantGone(t, writer.id)
}

// fenceFrozen fences a writer that was stopped in the middle of its writes, and lets it go on.
func fenceFrozen(t *testing.T, target *host, writer *child) {
	t.Helper()
	if err := target.agent.Fence(lasting(t, time.Second), writer.id); err != nil {
		t.Fatalf("fence of a frozen writer: %v", err)
	}
	before := bytes.Clone(target.region.Bytes())
	target.wantGone(t, writer.id)
	writer.signal(syscall.SIGCONT)
	for !writer.must(Command{Do: "receive"}).Gone { // past the notes
	}
	_, err := writer.try(Command{Do: "add", Metadata: target.metadata(t)})
	within(t, err, nixl.ErrFenced)
	if !bytes.Equal(before, target.region.Bytes()) {
		t.Fatal("bytes changed after the proof")
	}
}

func testKilledTarget(t *testing.T, tr Transport) {
	folder := Folder(t)
	writer := tr.start(t, "prefill", "1", folder)
	target := startChild(t, "decode", "1", folder)
	id := target.addedBy(writer)
	r := nixl.Request{Peer: id, Copies: firstBlocks(blocks)}
	err := writer.post(lasting(t, patience), r)
	if err != nil {
		t.Fatal(err)
	}
	target.signal(syscall.SIGKILL)
	for err == nil {
		err = writer.post(lasting(t, patience), r)
	}
	// Whose bytes land only while the target runs cannot tell its death from a cut of the network.
	unproven := errors.Is(err, nixl.ErrUnsettled) && !tr.NeedsTarget
	if !errors.Is(err, nixl.ErrGone) && !errors.Is(err, nixl.ErrUnknownPeer) || unproven {
		t.Fatalf("write to a killed target: %v", err)
	}
	writer.wantGone(t, id)
}

func testFrozenTarget(t *testing.T, tr Transport) {
	folder := Folder(t)
	writer := tr.start(t, "prefill", "1", folder)
	target := startChild(t, "decode", "1", folder)
	metadata := target.metadata()
	target.must(Command{Do: "allow", Peer: writer.agent.ID()})
	target.freeze()
	_, err := writer.agent.AddPeer(lasting(t, 200*time.Millisecond), metadata)
	within(t, err, nixl.ErrUnreachable)
	target.signal(syscall.SIGCONT)
	id, err := writer.agent.AddPeer(lasting(t, patience), metadata)
	if err != nil {
		t.Fatalf("after it went on: %v", err)
	}
	target.freeze()
	err = writer.post(lasting(t, 300*time.Millisecond), nixl.Request{Peer: id, Copies: firstBlocks(blocks)})
	if tr.NeedsTarget {
		within(t, err, nixl.ErrUnsettled)
	} else if err != nil {
		t.Fatalf("a one-sided write needs no peer that runs: %v", err)
	}
}

func testKilledRestart(t *testing.T, tr Transport) {
	folder := Folder(t)
	writer := tr.start(t, "prefill", "1", folder)
	target := startChild(t, "decode", "1", folder)
	target.addedBy(writer)
	stale := target.metadata()
	target.signal(syscall.SIGKILL)
	writer.wantGone(t, target.id)
	_, err := writer.agent.AddPeer(lasting(t, patience), stale)
	within(t, err, nixl.ErrUnreachable)
	again := startChild(t, "decode", "2", folder)
	_, err = writer.agent.AddPeer(lasting(t, patience), stale)
	tr.wantStale(t, err)
	id := again.addedBy(writer)
	fill(writer.region.Bytes()[:Layout.BlockBytes()], 5)
	if err := writer.post(lasting(t, patience), nixl.Request{Peer: id, Copies: firstBlocks(1)}); err != nil {
		t.Fatal(err)
	}
	if got := again.must(Command{Do: "bytes", Bytes: Layout.BlockBytes()}).Data; !bytes.Equal(got, filled(len(got), 5)) {
		t.Fatal("the write did not reach the restarted peer")
	}
}

// testRetire moves blocks out of the reach of a frozen writer, which goes on afterwards.
func testRetire(t *testing.T, tr Transport) {
	target, frozen := flooded(t, tr)
	retirer, can := target.agent.(nixl.Retirer)
	if !can {
		t.Skip("the transport cannot move memory")
	}
	innocent := startChild(t, "innocent", "1", frozen.folder)
	id := innocent.add(target)
	frozen.freeze()
	ctx := lasting(t, patience)
	within(t, target.agent.Fence(ended(), frozen.id), nixl.ErrStillAlive)
	n := Layout.BlockBytes()
	kept := bytes.Clone(target.region.Bytes()[5*n : 6*n])
	var moving []block.ID
	err := retirer.Retire(ctx, frozen.id, 0, []block.ID{0, 1, 2}, func(_ context.Context, blocks []block.ID, replace func(func(block.ID) bool) error) error {
		moving = blocks
		return replace(func(b block.ID) bool { return b == 5 })
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(moving) < 6 || moving[5] != 5 || len(moving) == blocks {
		t.Fatalf("%d blocks moved", len(moving))
	}
	if err := target.agent.Fence(ended(), frozen.id); err != nil {
		t.Fatalf("fence after the memory was retired: %v", err)
	}
	last := int(moving[len(moving)-1]) + 1
	want := make([]byte, last*n)
	copy(want[5*n:], kept)
	if !bytes.Equal(target.region.Bytes()[:last*n], want) {
		t.Fatal("the moved blocks are not the kept one and zeroes")
	}
	frozen.signal(syscall.SIGCONT)
	// It learns that it was expelled; until then it wrote to where nobody reads.
	for r := frozen.must(Command{Do: "receive"}); !r.Gone; r = frozen.must(Command{Do: "receive"}) {
	}
	if !bytes.Equal(target.region.Bytes()[:last*n], want) {
		t.Fatal("a late write reached the moved blocks")
	}
	_, err = frozen.try(Command{Do: "add", Metadata: target.metadata(t)})
	within(t, err, nixl.ErrFenced)
	if r := innocent.must(Command{Do: "receive"}); !r.Gone || r.Peer != id {
		t.Fatalf("got %+v, want that the connection ended", r)
	}
	innocent.add(target)
	innocent.fill(0, n, 77)
	if err := innocent.write(id, whole(0, 1)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(target.region.Bytes()[n:2*n], filled(n, 77)) {
		t.Fatal("who connects anew does not reach the memory")
	}
}
