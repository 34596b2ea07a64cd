package nixltest

import (
	"bytes"
	"testing"
	"time"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
)

// wholeRuns are the first n blocks, one run each.
func wholeRuns(n int) []block.Span {
	runs := make([]block.Span, n)
	for i := range runs {
		runs[i] = span(i, Layout.BlockBytes())
	}
	return runs
}

// lists prepares all blocks of both sides.
func lists(t *testing.T, writer, target *host) (local, remote nixl.List) {
	t.Helper()
	local, err := writer.agent.Prepare(writer.agent.ID(), 0, wholeRuns(blocks))
	if err != nil {
		t.Fatal(err)
	}
	remote, err = writer.agent.Prepare(target.agent.ID(), 0, wholeRuns(blocks))
	if err != nil {
		t.Fatal(err)
	}
	return local, remote
}

func everythingGrant() *nixl.Grant { return &nixl.Grant{Number: everything} }

// testPrepared posts the same transfer again and again, by index.
func testPrepared(t *testing.T, tr Transport) {
	folder := Folder(t)
	target := tr.start(t, "decode", "1", folder)
	writer := tr.start(t, "prefill", "1", folder)
	writer.add(t, target)
	local, remote := lists(t, writer, target)
	if local.Len() != blocks || remote.Len() != blocks {
		t.Fatalf("lists of %d and %d runs, want %d", local.Len(), remote.Len(), blocks)
	}
	from, to := make([]int32, blocks), make([]int32, blocks)
	for i := range from {
		from[i], to[i] = int32(i), int32((i*1237+11)%blocks)
	}
	transfer, err := writer.agent.Make(nixl.Prepared{Grant: everythingGrant(), Local: local, Remote: remote, LocalRuns: from, RemoteRuns: to})
	if err != nil {
		t.Fatal(err)
	}
	within(t, transfer.Status(), nixl.ErrNotPosted)
	within(t, transfer.Wait(lasting(t, patience)), nixl.ErrNotPosted)
	n := Layout.BlockBytes()
	for round := range byte(3) {
		fill(writer.region.Bytes(), round)
		if err := transfer.Post(lasting(t, patience)); err != nil {
			t.Fatal(err)
		}
		if err := transfer.Wait(lasting(t, patience)); err != nil {
			t.Fatal(err)
		}
		if err := transfer.Status(); err != nil {
			t.Fatalf("status after the end: %v", err)
		}
		for i := range from {
			if !bytes.Equal(target.region.Bytes()[int(to[i])*n:][:n], writer.region.Bytes()[int(from[i])*n:][:n]) {
				t.Fatalf("round %d: block %d did not land in block %d", round, from[i], to[i])
			}
		}
	}
	transfer.Cancel()
	if err := transfer.Wait(lasting(t, patience)); err != nil {
		t.Fatalf("a cancel after the end made it %v", err)
	}
	for range 2 {
		if err := transfer.Release(); err != nil {
			t.Fatal(err)
		}
	}
	within(t, transfer.Post(lasting(t, patience)), nixl.ErrReleased)
	for _, l := range []nixl.List{local, remote} {
		l.Release()
		l.Release()
	}
}

func testBadLists(t *testing.T, tr Transport) {
	folder := Folder(t)
	target := tr.start(t, "decode", "1", folder)
	writer := tr.start(t, "prefill", "1", folder)
	id := writer.add(t, target)
	local, remote := lists(t, writer, target)
	size := len(target.region.Bytes())
	for name, run := range map[string]block.Span{
		"past the end": {Offset: size - 63, Bytes: 64}, "negative offset": {Offset: -1, Bytes: 8}, "negative length": {Bytes: -1},
	} {
		if _, err := writer.agent.Prepare(id, 0, []block.Span{{Bytes: 64}, run}); err == nil {
			t.Errorf("%s: prepared", name)
		} else {
			within(t, err, nixl.ErrDescriptor)
		}
	}
	_, err := writer.agent.Prepare(id, 1, nil)
	within(t, err, nixl.ErrDescriptor)
	_, err = writer.agent.Prepare(nixl.PeerID{Name: "nobody", Incarnation: "1"}, 0, nil)
	within(t, err, nixl.ErrUnknownPeer)
	short, err := writer.agent.Prepare(id, 0, []block.Span{{Bytes: 8}})
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]nixl.Prepared{
		"unequal counts":      {Local: local, Remote: remote, LocalRuns: []int32{0, 1}, RemoteRuns: []int32{0}},
		"local past the end":  {Local: local, Remote: remote, LocalRuns: []int32{blocks}, RemoteRuns: []int32{0}},
		"remote past the end": {Local: local, Remote: remote, LocalRuns: []int32{0}, RemoteRuns: []int32{blocks}},
		"negative":            {Local: local, Remote: remote, LocalRuns: []int32{0}, RemoteRuns: []int32{-1}},
		"written twice":       {Local: local, Remote: remote, LocalRuns: []int32{0, 1}, RemoteRuns: []int32{5, 5}},
		"read into twice":     {Op: nixl.Read, Local: local, Remote: remote, LocalRuns: []int32{5, 5}, RemoteRuns: []int32{0, 1}},
		"unequal lengths":     {Local: local, Remote: short, LocalRuns: []int32{0}, RemoteRuns: []int32{0}},
		"sides exchanged":     {Local: remote, Remote: local, LocalRuns: []int32{0}, RemoteRuns: []int32{0}},
		"no list":             {Local: local, LocalRuns: []int32{0}, RemoteRuns: []int32{0}},
		"no operation":        {Op: 7, Local: local, Remote: remote, LocalRuns: []int32{0}, RemoteRuns: []int32{0}},
	} {
		p.Grant = everythingGrant()
		if _, err := writer.agent.Make(p); err == nil {
			t.Errorf("%s: made", name)
		} else {
			within(t, err, nixl.ErrDescriptor)
		}
	}
	// A list ends with its connection.
	if err := writer.agent.RemovePeer(id); err != nil {
		t.Fatal(err)
	}
	writer.add(t, target)
	_, err = writer.agent.Make(nixl.Prepared{Grant: everythingGrant(), Local: local, Remote: remote, LocalRuns: []int32{0}, RemoteRuns: []int32{0}})
	within(t, err, nixl.ErrUnknownPeer)
}

// testInFlight posts and releases what has not settled.
func testInFlight(t *testing.T, tr Transport) {
	folder := Folder(t)
	target := tr.start(t, "decode", "1", folder)
	writer := tr.start(t, "prefill", "1", folder)
	id := writer.add(t, target)
	met := false
	for range 200 {
		transfer, err := writer.agent.Create(nixl.Request{Peer: id, Grant: everythingGrant(), Copies: firstBlocks(blocks)})
		if err != nil {
			t.Fatal(err)
		}
		if err := transfer.Post(lasting(t, patience)); err != nil {
			t.Fatal(err)
		}
		again, release := transfer.Post(lasting(t, patience)), transfer.Release()
		switch err := transfer.Wait(lasting(t, patience)); {
		case release == nil: // it had settled
		case again == nil && release != nil: // the second post is in flight
			within(t, release, nixl.ErrInProgress)
		default:
			within(t, again, nixl.ErrInProgress)
			within(t, release, nixl.ErrInProgress)
			if err != nil { // cancelled by the release
				within(t, err, nixl.ErrAborted)
			}
			met = true
		}
		if err := transfer.Release(); err != nil {
			t.Fatalf("release of a settled transfer: %v", err)
		}
	}
	if !met {
		t.Error("no transfer was met in flight")
	}
}

// testGrants asks for more than was granted.
func testGrants(t *testing.T, tr Transport) {
	if !tr.ChecksGrants {
		t.Skip("the transport trusts its peers")
	}
	folder := Folder(t)
	target := tr.start(t, "decode", "1", folder)
	writer := tr.start(t, "prefill", "1", folder)
	id := writer.add(t, target)
	refs := []block.Ref{{ID: 3, Generation: 7}, {ID: 5, Generation: 2}}
	mine := nixl.Grant{Number: 10, Op: nixl.Write, Blocks: refs}
	if err := target.agent.Allow(writer.agent.ID(), mine); err != nil {
		t.Fatal(err)
	}
	if err := target.agent.Allow(writer.agent.ID(), mine); err == nil {
		t.Error("a number was granted twice")
	}
	within(t, target.agent.Allow(writer.agent.ID(), nixl.Grant{Number: 11, Blocks: []block.Ref{{ID: blocks}}}), nixl.ErrDescriptor)
	within(t, target.agent.Allow(writer.agent.ID(), nixl.Grant{Number: 11, Region: 1}), nixl.ErrDescriptor)
	if err := target.agent.Allow(nixl.PeerID{Name: "other", Incarnation: "1"}, nixl.Grant{Number: 12, Blocks: refs}); err != nil {
		t.Fatal(err)
	}
	fill(writer.region.Bytes(), 1)
	empty := bytes.Clone(target.region.Bytes())
	edge := nixl.Copy{Local: block.Span{Bytes: 2}, Remote: block.Span{Offset: 4*Layout.BlockBytes() - 1, Bytes: 2}}
	for name, r := range map[string]nixl.Request{
		"a block beside it":    {Grant: &mine, Copies: []nixl.Copy{whole(0, 3), whole(1, 4)}},
		"over a block's end":   {Grant: &mine, Copies: []nixl.Copy{edge}},
		"an unknown number":    {Grant: &nixl.Grant{Number: 99}, Copies: []nixl.Copy{whole(0, 3)}},
		"another peer's grant": {Grant: &nixl.Grant{Number: 12}, Copies: []nixl.Copy{whole(0, 3)}},
		"an old generation": {Grant: &nixl.Grant{Number: 10, Blocks: []block.Ref{{ID: 3, Generation: 6}}},
			Copies: []nixl.Copy{whole(0, 3)}},
		"a block not granted": {Grant: &nixl.Grant{Number: 10, Blocks: []block.Ref{{ID: 4, Generation: 7}}},
			Copies: []nixl.Copy{whole(0, 3)}},
		"a read by a write's": {Op: nixl.Read, Grant: &mine, Copies: []nixl.Copy{whole(0, 3)}},
	} {
		r.Peer = id
		if err := writer.post(lasting(t, patience), r); err == nil {
			t.Errorf("%s: the request was carried out", name)
		} else {
			within(t, err, nixl.ErrNotGranted)
		}
	}
	if _, err := writer.agent.Create(nixl.Request{Peer: id, Copies: []nixl.Copy{whole(0, 3)}}); err == nil {
		t.Error("a request without a grant was made")
	} else {
		within(t, err, nixl.ErrNotGranted)
	}
	if !bytes.Equal(target.region.Bytes(), empty) {
		t.Fatal("a refused request moved bytes")
	}
	granted := nixl.Request{Peer: id, Grant: &mine, Copies: []nixl.Copy{whole(0, 3), whole(1, 5)}}
	if err := writer.post(lasting(t, patience), granted); err != nil {
		t.Fatal(err)
	}
	if err := target.agent.Revoke(lasting(t, patience), writer.agent.ID(), mine.Number); err != nil {
		t.Fatal(err)
	}
	before := bytes.Clone(target.region.Bytes())
	fill(writer.region.Bytes(), 2)
	within(t, writer.post(lasting(t, patience), granted), nixl.ErrNotGranted)
	if !bytes.Equal(target.region.Bytes(), before) {
		t.Fatal("bytes changed after the grant was revoked")
	}
	if err := target.agent.Revoke(ended(), writer.agent.ID(), mine.Number); err != nil {
		t.Fatalf("revoke twice: %v", err)
	}
}

// testRevokeUnderWrites revokes the grant of a peer that writes all the time.
func testRevokeUnderWrites(t *testing.T, tr Transport) {
	folder := Folder(t)
	target := tr.start(t, "decode", "1", folder)
	writer := tr.start(t, "prefill", "1", folder)
	id := writer.add(t, target)
	writer.flood(nixl.Request{Peer: id, Copies: firstBlocks(blocks)})
	for target.region.Bytes()[0] == 0 { // some write has begun
		if err := writer.post(lasting(t, patience), nixl.Request{Peer: id, Copies: firstBlocks(1)}); err != nil {
			t.Fatal(err)
		}
	}
	err := target.agent.Revoke(lasting(t, time.Second), writer.agent.ID(), everything)
	if !tr.ChecksGrants {
		within(t, err, nixl.ErrStillAlive)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	before := bytes.Clone(target.region.Bytes())
	within(t, writer.post(lasting(t, patience), nixl.Request{Peer: id, Copies: firstBlocks(blocks)}), nixl.ErrNotGranted)
	if !bytes.Equal(target.region.Bytes(), before) {
		t.Fatal("bytes changed after the proof")
	}
	// The peer itself is trusted with what else it is granted.
	if err := target.allow(writer.agent.ID()); err != nil {
		t.Fatal(err)
	}
	if err := writer.post(lasting(t, patience), nixl.Request{Peer: id, Copies: firstBlocks(1)}); err != nil {
		t.Fatal(err)
	}
}

// testRegionClosed ends the registration of the writer's region while it is in use.
func testRegionClosed(t *testing.T, tr Transport) {
	folder := Folder(t)
	target := tr.start(t, "decode", "1", folder)
	writer := tr.start(t, "prefill", "1", folder)
	id := writer.add(t, target)
	writer.flood(nixl.Request{Peer: id, Copies: firstBlocks(blocks)})
	for writer.agent.Stats().Transfers < 3 {
		if err := writer.post(lasting(t, patience), nixl.Request{Peer: id, Copies: firstBlocks(1)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.region.Close(); err != nil {
		t.Fatal(err)
	}
	err := writer.post(lasting(t, patience), nixl.Request{Peer: id, Copies: firstBlocks(1)})
	within(t, err, nixl.ErrClosed)
	if err := writer.region.Close(); err != nil {
		t.Fatalf("close twice: %v", err)
	}
}
