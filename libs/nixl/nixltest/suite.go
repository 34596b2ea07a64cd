package nixltest

import (
	"bytes"
	"errors"
	"math"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
)

// starter starts a peer beside a test's own host.
type starter func(t *testing.T, name, incarnation, folder string) *peer

// Run runs the suite with peers in this process.
func Run(t *testing.T, tr Transport) {
	here := func(t *testing.T, name, incarnation, folder string) *peer {
		h := tr.start(t, name, incarnation, folder)
		return &peer{t: t, do: h.do, id: h.agent.ID()}
	}
	runShared(t, tr, here)
	for name, test := range map[string]func(*testing.T, Transport){
		"unequal KV formats are refused":                   testMismatch,
		"registration ends with the metadata":              testSealed,
		"many goroutines add one peer":                     testConcurrentAdd,
		"a full inbox makes senders wait":                  testBackpressure,
		"agents close under load":                          testCloseUnderLoad,
		"a fence stops late writes":                        testFence,
		"a closed agent refuses everything":                testClosed,
		"prepared transfers are posted again":              testPrepared,
		"bad lists and indices move no byte":               testBadLists,
		"what is in flight is neither posted nor released": testInFlight,
		"only what was granted is touched":                 testGrants,
		"a revoked grant stops late writes":                testRevokeUnderWrites,
		"a region is closed while it is in use":            testRegionClosed,
	} {
		t.Run(name, func(t *testing.T) { test(t, tr) })
	}
}

// runShared runs what looks the same wherever the peer is.
func runShared(t *testing.T, tr Transport, start starter) {
	for name, test := range map[string]func(*testing.T, Transport, starter){
		"a note follows its data":                  testOrder,
		"notes follow their data under load":       testOrderUnderLoad,
		"reads fetch the peer's bytes":             testRead,
		"bad descriptors move no byte":             testDescriptors,
		"zero lengths and no copies complete":      testZeroLength,
		"4096 copies land where they belong":       testManyCopies,
		"a restarted peer is another peer":         testRestart,
		"an unknown peer is an error":              testUnknown,
		"a removed peer is gone and can come back": testRemove,
	} {
		t.Run(name, func(t *testing.T) { test(t, tr, start) })
	}
}

func testOrder(t *testing.T, tr Transport, start starter) {
	folder := Folder(t)
	target := tr.start(t, "decode", "1", folder)
	writer := start(t, "prefill", "1", folder)
	id := writer.add(target)
	size := 64 * Layout.BlockBytes()
	for round := range 50 {
		value := byte(round)
		writer.fill(0, size, value)
		copies := nixl.Copy{Local: span(0, size), Remote: span(64, size)}
		if err := writer.write(id, copies); err != nil {
			t.Fatal(err)
		}
		text := "done " + strconv.Itoa(round)
		writer.notify(id, text)
		target.wantNote(t, writer.id, text)
		if got := target.region.Bytes()[size : 2*size]; !bytes.Equal(got, filled(size, value)) {
			t.Fatalf("round %d: the note came before the data", round)
		}
		// The answer needs no AddPeer on this side.
		if err := target.agent.Notify(lasting(t, patience), writer.id, []byte(text)); err != nil {
			t.Fatal(err)
		}
		writer.wantNote(id, text)
	}
	wantCounters(t, writer.must(Command{Do: "stats"}).Stats, id,
		nixl.Counters{BytesWritten: uint64(50 * size), Transfers: 50, NotesSent: 50, NotesReceived: 50})
	wantCounters(t, target.agent.Stats(), writer.id, nixl.Counters{NotesSent: 50, NotesReceived: 50})
}

func wantCounters(t *testing.T, got nixl.Stats, of nixl.PeerID, want nixl.Counters) {
	t.Helper()
	if got.Counters != want || got.Peers[of] != want || len(got.Peers) != 1 {
		t.Fatalf("got %+v, want %+v in total and for %s alone", got, want, of)
	}
}

func testRead(t *testing.T, tr Transport, start starter) {
	folder := Folder(t)
	target := tr.start(t, "decode", "1", folder)
	reader := start(t, "prefill", "1", folder)
	id := reader.add(target)
	size := 3 * Layout.BlockBytes()
	fill(target.region.Bytes()[:size], 7)
	reader.must(Command{Do: "post", Request: nixl.Request{Peer: id, Op: nixl.Read,
		Copies: []nixl.Copy{{Local: span(10, size), Remote: span(0, size)}}}})
	if got := reader.must(Command{Do: "bytes", Offset: 10 * Layout.BlockBytes(), Bytes: size}).Data; !bytes.Equal(got, filled(size, 7)) {
		t.Fatal("the bytes read are not the peer's")
	}
	wantCounters(t, reader.must(Command{Do: "stats"}).Stats, id, nixl.Counters{BytesRead: uint64(size), Transfers: 1})
}

func testDescriptors(t *testing.T, tr Transport, start starter) {
	folder := Folder(t)
	target := tr.start(t, "decode", "1", folder)
	writer := start(t, "prefill", "1", folder)
	id := writer.add(target)
	size := len(target.region.Bytes())
	writer.fill(0, size, 1)
	at := func(offset, n int) block.Span { return block.Span{Offset: offset, Bytes: n} }
	good := nixl.Copy{Local: at(0, 64), Remote: at(0, 64)}
	for name, bad := range map[string]nixl.Copy{
		"remote past the end":   {Local: at(0, 64), Remote: at(size-63, 64)},
		"local past the end":    {Local: at(size-63, 64), Remote: at(64, 64)},
		"far past the end":      {Local: at(0, 64), Remote: at(size+1, 64)},
		"negative offset":       {Local: at(0, 64), Remote: at(-1, 64)},
		"negative length":       {Local: at(64, -64), Remote: at(64, -64)},
		"offset that overflows": {Local: at(0, 64), Remote: at(math.MaxInt, 64)},
		"length that overflows": {Local: at(64, math.MaxInt), Remote: at(64, math.MaxInt)},
		"unequal lengths":       {Local: at(0, 64), Remote: at(64, 65)},
		"zero but outside":      {Local: at(0, 0), Remote: at(size+1, 0)},
		"overlap":               {Local: at(64, 64), Remote: at(63, 64)},
		"overlap, descending":   {Local: at(64, 64), Remote: at(0, 1)},
	} {
		if err := writer.write(id, good, bad); !errors.Is(err, nixl.ErrDescriptor) {
			t.Errorf("%s: got %v, want ErrDescriptor", name, err)
		}
	}
	_, err := writer.try(Command{Do: "post", Request: nixl.Request{Peer: id, Remote: 1, Copies: []nixl.Copy{good}}})
	within(t, err, nixl.ErrDescriptor)
	_, err = writer.try(Command{Do: "post", Request: nixl.Request{Peer: id, Local: -1, Copies: []nixl.Copy{good}}})
	within(t, err, nixl.ErrDescriptor)
	_, err = writer.try(Command{Do: "post", Request: nixl.Request{Peer: id, Op: 7, Copies: []nixl.Copy{good}}})
	within(t, err, nixl.ErrDescriptor)
	if !bytes.Equal(target.region.Bytes(), make([]byte, size)) {
		t.Fatal("a refused request moved bytes")
	}
}

func testZeroLength(t *testing.T, tr Transport, start starter) {
	folder := Folder(t)
	target := tr.start(t, "decode", "1", folder)
	writer := start(t, "prefill", "1", folder)
	id := writer.add(target)
	size := len(target.region.Bytes())
	for _, copies := range [][]nixl.Copy{
		nil,
		{{}},
		{{}, {}},
		{{Local: block.Span{Offset: size}, Remote: block.Span{Offset: size}}},
		{whole(0, 5), {Remote: block.Span{Offset: 5*Layout.BlockBytes() + 1}}},
	} {
		if err := writer.write(id, copies...); err != nil {
			t.Errorf("%v: %v", copies, err)
		}
	}
}

func testManyCopies(t *testing.T, tr Transport, start starter) {
	folder := Folder(t)
	target := tr.start(t, "decode", "1", folder)
	writer := start(t, "prefill", "1", folder)
	id := writer.add(target)
	n := Layout.BlockBytes()
	want := make([]byte, blocks*n)
	copies := make([]nixl.Copy, blocks)
	for i := range copies { // each block to another place, in no order
		copies[i] = whole(i, (i*1237+11)%blocks)
		writer.fill(i*n, n, byte(i/16))
		fill(want[copies[i].Remote.Offset:][:n], byte(i/16))
	}
	if err := writer.write(id, copies...); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(target.region.Bytes(), want) {
		t.Fatal("the bytes did not land where they belong")
	}
}

func testRestart(t *testing.T, tr Transport, start starter) {
	folder := Folder(t)
	target, err := tr.open(nixl.Config{Name: "decode", Incarnation: "1", KVFormat: format}, folder, Layout)
	if err != nil {
		t.Fatal(err)
	}
	writer := start(t, "prefill", "1", folder)
	stale := target.metadata(t)
	old := writer.add(target)
	if err := target.close(); err != nil {
		t.Fatal(err)
	}
	if r := writer.must(Command{Do: "receive"}); !r.Gone || r.Peer != old {
		t.Fatalf("got %+v, want %s to be gone", r, old)
	}
	if err := writer.write(old, whole(0, 0)); !errors.Is(err, nixl.ErrUnknownPeer) {
		t.Fatalf("write to the ended peer: %v, want ErrUnknownPeer", err)
	}
	again := tr.start(t, "decode", "2", folder)
	_, err = writer.try(Command{Do: "add", Metadata: stale})
	tr.wantStale(t, err)
	id := writer.add(again)
	if id == old || id != again.agent.ID() {
		t.Fatalf("the restarted peer is %s, the former was %s", id, old)
	}
	writer.fill(0, Layout.BlockBytes(), 9)
	if err := writer.write(id, whole(0, 3)); err != nil {
		t.Fatal(err)
	}
	if got := again.region.Bytes()[3*Layout.BlockBytes():][:Layout.BlockBytes()]; !bytes.Equal(got, filled(len(got), 9)) {
		t.Fatal("the write did not reach the restarted peer")
	}
}

func testUnknown(t *testing.T, tr Transport, start starter) {
	folder := Folder(t)
	target := tr.start(t, "decode", "1", folder)
	writer := start(t, "prefill", "1", folder)
	nobody := nixl.PeerID{Name: "nobody", Incarnation: "1"}
	within(t, writer.write(nobody, whole(0, 0)), nixl.ErrUnknownPeer)
	_, err := writer.try(Command{Do: "notify", Peer: nobody})
	within(t, err, nixl.ErrUnknownPeer)
	writer.must(Command{Do: "remove", Peer: nobody})
	_, err = writer.try(Command{Do: "add", Metadata: []byte("{}")})
	if err == nil {
		t.Fatal("empty metadata were accepted")
	}
	// Who never had our memory is quiet, and is kept out from then on.
	if err := target.agent.Fence(ended(), writer.id); err != nil {
		t.Fatalf("fence of a peer that never came: %v", err)
	}
	_, err = writer.try(Command{Do: "add", Metadata: target.metadata(t)})
	within(t, err, nixl.ErrFenced)
}

func testRemove(t *testing.T, tr Transport, start starter) {
	folder := Folder(t)
	target := tr.start(t, "decode", "1", folder)
	writer := start(t, "prefill", "1", folder)
	for range 3 {
		id := writer.add(target)
		if again := writer.add(target); again != id {
			t.Fatalf("added twice: %s, %s", id, again)
		}
		writer.notify(id, "here")
		target.wantNote(t, writer.id, "here")
		writer.must(Command{Do: "remove", Peer: id})
		target.wantGone(t, writer.id)
		within(t, writer.write(id, whole(0, 0)), nixl.ErrUnknownPeer)
		err := target.agent.Notify(lasting(t, patience), writer.id, nil)
		within(t, err, nixl.ErrUnknownPeer)
	}
	// It said that it has unmapped: that is a proof, also of a living peer.
	if err := target.agent.Fence(ended(), writer.id); err != nil {
		t.Fatalf("fence after the goodbye: %v", err)
	}
	_, err := writer.try(Command{Do: "add", Metadata: target.metadata(t)})
	within(t, err, nixl.ErrFenced)
}

func testConcurrentAdd(t *testing.T, tr Transport) {
	folder := Folder(t)
	target := tr.start(t, "decode", "1", folder)
	writer := tr.start(t, "prefill", "1", folder)
	metadata := target.metadata(t)
	var adding sync.WaitGroup
	for range 8 {
		adding.Go(func() {
			id, err := writer.agent.AddPeer(lasting(t, patience), metadata)
			if err != nil || id != target.agent.ID() {
				t.Errorf("add: %s, %v", id, err)
			}
		})
	}
	adding.Wait()
	if err := writer.agent.RemovePeer(target.agent.ID()); err != nil {
		t.Fatal(err)
	}
	target.wantGone(t, writer.agent.ID()) // a second connection would have held it
	if err := target.agent.Fence(lasting(t, time.Second), writer.agent.ID()); err != nil {
		t.Fatal(err)
	}
}
