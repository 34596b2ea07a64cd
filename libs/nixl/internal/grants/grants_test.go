package grants

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
)

var (
	regions = []nixl.RegionInfo{
		{Layout: block.Layout{BlockTokens: 1, Layers: 1, KVHeads: 1, HeadDim: 8, ElemBytes: 1}, Blocks: 8}, // 16 bytes a block
		{Layout: block.Layout{BlockTokens: 2, Layers: 1, KVHeads: 1, HeadDim: 8, ElemBytes: 1}, Blocks: 2},
	}
	writer = nixl.PeerID{Name: "prefill", Incarnation: "1"}
	grant  = nixl.Grant{Number: 7, Blocks: []block.Ref{{ID: 2, Generation: 5}, {ID: 3, Generation: 9}}}
)

func allowed(t *testing.T, g nixl.Grant) *Table {
	t.Helper()
	table := new(Table)
	if err := table.Allow(writer, g, regions); err != nil {
		t.Fatal(err)
	}
	return table
}

func find(t *testing.T, table *Table) *Entry {
	t.Helper()
	e, err := table.Find(writer, nixl.Write, 0, &nixl.Grant{Number: grant.Number})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func TestGrantsThatCannotBe(t *testing.T) {
	table := allowed(t, grant)
	for name, g := range map[string]nixl.Grant{
		"operation":      {Number: 1, Op: 9},
		"region":         {Number: 1, Region: 2},
		"no region":      {Number: 1, Region: -1},
		"block":          {Number: 1, Blocks: []block.Ref{{ID: 8}}},
		"other region's": {Number: 1, Region: 1, Blocks: []block.Ref{{ID: 2}}},
		"negative block": {Number: 1, Blocks: []block.Ref{{ID: -1}}},
	} {
		if err := table.Allow(writer, g, regions); !errors.Is(err, nixl.ErrDescriptor) {
			t.Errorf("%s: got %v, want ErrDescriptor", name, err)
		}
	}
	if err := table.Allow(writer, grant, regions); err == nil {
		t.Error("a number was granted twice")
	}
	other := nixl.PeerID{Name: "prefill", Incarnation: "2"}
	read := grant
	read.Op = nixl.Read
	if err := errors.Join(table.Allow(other, grant, regions), table.Allow(writer, read, regions)); err != nil {
		t.Errorf("another peer's and another operation's number: %v", err)
	}
}

func TestWhatIsNotGranted(t *testing.T) {
	table := allowed(t, grant)
	for name, c := range map[string]struct {
		peer   nixl.PeerID
		op     nixl.Op
		region nixl.RegionID
		grant  *nixl.Grant
	}{
		"no grant":          {writer, nixl.Write, 0, nil},
		"number":            {writer, nixl.Write, 0, &nixl.Grant{Number: 8}},
		"other incarnation": {nixl.PeerID{Name: "prefill", Incarnation: "2"}, nixl.Write, 0, &grant},
		"operation":         {writer, nixl.Read, 0, &grant},
		"region":            {writer, nixl.Write, 1, &grant},
		"generation":        {writer, nixl.Write, 0, &nixl.Grant{Number: 7, Blocks: []block.Ref{{ID: 2, Generation: 4}}}},
		"block":             {writer, nixl.Write, 0, &nixl.Grant{Number: 7, Blocks: []block.Ref{{ID: 4, Generation: 5}}}},
	} {
		if _, err := table.Find(c.peer, c.op, c.region, c.grant); !errors.Is(err, nixl.ErrNotGranted) {
			t.Errorf("%s: got %v, want ErrNotGranted", name, err)
		}
	}
	e := find(t, table)
	for _, run := range []block.Span{{Offset: 31, Bytes: 1}, {Offset: 31, Bytes: 2}, {Offset: 63, Bytes: 2}, {Offset: 64, Bytes: 1}, {Offset: 0, Bytes: 128}} {
		if err := e.Covers(run); !errors.Is(err, nixl.ErrNotGranted) {
			t.Errorf("%+v: got %v, want ErrNotGranted", run, err)
		}
	}
	for _, run := range []block.Span{{Offset: 32, Bytes: 32}, {Offset: 63, Bytes: 1}, {Offset: 32}, {Offset: 0}, {Offset: 128}} {
		if err := e.Covers(run); err != nil {
			t.Errorf("%+v: %v", run, err)
		}
	}
	for _, c := range []struct {
		ref   block.Ref
		named bool
		want  error
	}{
		{block.Ref{ID: 2, Generation: 5}, true, nil}, {block.Ref{ID: 2}, false, nil},
		{block.Ref{ID: 2, Generation: 6}, true, nixl.ErrNotGranted}, {block.Ref{ID: 4}, false, nixl.ErrNotGranted},
		{block.Ref{ID: 4, Generation: 0}, true, nixl.ErrNotGranted},
	} {
		if err := e.Has(c.ref, c.named); !errors.Is(err, c.want) {
			t.Errorf("%+v, named %v: got %v, want %v", c.ref, c.named, err, c.want)
		}
	}
}

func TestRevokeWaitsForWhoIsWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := allowed(t, grant)
		e := find(t, table)
		if err := e.Gate.Enter(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := table.Revoke(ctx, writer, grant.Number); !errors.Is(err, nixl.ErrStillAlive) || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v, want ErrStillAlive", err)
		}
		if err := e.Gate.Enter(); !errors.Is(err, nixl.ErrNotGranted) {
			t.Fatalf("a revoked grant let someone in: %v", err)
		}
		if _, err := table.Find(writer, nixl.Write, 0, &grant); !errors.Is(err, nixl.ErrNotGranted) {
			t.Fatalf("a revoked grant was found: %v", err)
		}
		proof := make(chan error)
		go func() { proof <- table.Revoke(t.Context(), writer, grant.Number) }()
		synctest.Wait()
		e.Gate.Leave()
		if err := <-proof; err != nil {
			t.Fatal(err)
		}
		if err := table.Revoke(ended(), writer, grant.Number); err != nil {
			t.Fatalf("revoke twice: %v", err)
		}
		if len(table.grants) != 0 {
			t.Fatalf("left behind: %v", table.grants)
		}
	})
}

// A Revoke that waited while another one ended the grant must not take away what was
// granted since.
func TestRevokeLeavesALaterGrantOfTheNumber(t *testing.T) {
	table := allowed(t, grant)
	old := find(t, table)
	if err := old.Gate.Enter(); err != nil {
		t.Fatal(err)
	}
	again := func() { // while the first waits
		old.Gate.Leave()
		if err := errors.Join(table.Revoke(ended(), writer, grant.Number), table.Allow(writer, grant, regions)); err != nil {
			t.Error(err)
		}
	}
	if err := table.Revoke(hooked{context.Background(), again}, writer, grant.Number); err != nil {
		t.Fatal(err)
	}
	if now := find(t, table); now == old {
		t.Fatal("the later grant is not in force")
	}
}

// hooked is asked for its end by who begins to wait.
type hooked struct {
	context.Context
	waiting func()
}

func (h hooked) Done() <-chan struct{} { h.waiting(); return nil }

// A fence that has no proof yet must not make a Revoke believe that there is one.
func TestAForgottenGrantInUseIsNoProof(t *testing.T) {
	table := allowed(t, grant)
	e := find(t, table)
	if err := e.Gate.Enter(); err != nil {
		t.Fatal(err)
	}
	table.Forget(writer)
	if err := table.Revoke(ended(), writer, grant.Number); !errors.Is(err, nixl.ErrStillAlive) {
		t.Fatalf("got %v, want ErrStillAlive", err)
	}
	if _, err := table.Find(writer, nixl.Write, 0, &grant); !errors.Is(err, nixl.ErrFenced) {
		t.Fatalf("got %v, want ErrFenced", err)
	}
	e.Gate.Leave()
	if err := table.Revoke(ended(), writer, grant.Number); err != nil || len(table.grants) != 0 {
		t.Fatalf("got %v, with %d left", err, len(table.grants))
	}
	table = allowed(t, grant)
	table.Forget(writer)
	if len(table.grants) != 0 {
		t.Fatal("an unused grant was kept")
	}
}

func TestAPeerIsKnownWhileItHasAGrant(t *testing.T) {
	table := allowed(t, grant)
	if !table.Knows(writer) || table.Knows(nixl.PeerID{Name: writer.Name, Incarnation: "2"}) {
		t.Fatal("want the one that has a grant, and no other life of it")
	}
	if err := table.Revoke(t.Context(), writer, grant.Number); err != nil || table.Knows(writer) {
		t.Fatalf("%v, known: %t, want neither", err, table.Knows(writer))
	}
}
