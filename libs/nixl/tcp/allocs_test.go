package tcp

import (
	"context"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
)

// TestNothingIsAllocatedPerBlock compares transfers of few and of many runs.
func TestNothingIsAllocatedPerBlock(t *testing.T) {
	if testing.Short() {
		t.Skip("it counts nothing under the race detector, and takes long")
	}
	target, writer := start(t, "decode"), start(t, "prefill")
	target.allow(t, writer.ID())
	id := writer.add(t, target)
	const n = blocks * 64 // 1 KiB each
	runs, indices, refs := make([]block.Span, n), make([]int32, n), make([]block.Ref, blocks)
	for i := range runs {
		runs[i], indices[i] = block.Span{Offset: i * blockBytes / 64, Bytes: blockBytes / 64}, int32(i*37%n)
	}
	for i := range refs {
		refs[i] = block.Ref{ID: block.ID(i), Generation: 3}
	}
	local, err := writer.Prepare(writer.ID(), 0, runs)
	if err != nil {
		t.Fatal(err)
	}
	remote, err := writer.Prepare(id, 0, runs)
	if err != nil {
		t.Fatal(err)
	}
	allocations := func(op nixl.Op, count int) (posting, making float64) {
		p := nixl.Prepared{Op: op, Grant: &nixl.Grant{Number: everything, Blocks: refs}, Local: local, Remote: remote,
			LocalRuns: indices[:count], RemoteRuns: indices[:count]}
		transfer, err := writer.Make(p)
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		posting = testing.AllocsPerRun(50, func() {
			if err := transfer.Post(ctx); err != nil {
				t.Fatal(err)
			}
			if err := transfer.Wait(ctx); err != nil {
				t.Fatal(err)
			}
		})
		making = testing.AllocsPerRun(50, func() {
			if _, err := writer.Make(p); err != nil {
				t.Fatal(err)
			}
		})
		return posting, making
	}
	for _, op := range []nixl.Op{nixl.Write, nixl.Read} {
		allocations(op, n) // the buffers grow
		fewPosting, fewMaking := allocations(op, 64)
		posting, making := allocations(op, n)
		if posting > fewPosting+2 || posting > 8 {
			t.Errorf("%s: a post allocates %v times for %d runs, %v times for 64", op, posting, n, fewPosting)
		}
		if making > fewMaking+8 { // an index of the grant's blocks, as the runs are in no order
			t.Errorf("%s: Make allocates %v times for %d runs, %v times for 64", op, making, n, fewMaking)
		}
	}
}
