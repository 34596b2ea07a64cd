package prefillworker

import (
	"context"
	"fmt"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/worker"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
)

// readPrefix reads the blocks that the decode worker holds for this ticket and this worker
// lacks. What was read counts only once the decode worker has said that it held them all
// the time; otherwise the rows are computed, over what was read.
func (t *task) readPrefix(ctx context.Context) error {
	size := t.p.deps.Worker.Layout().BlockTokens
	held := len(t.ticket.GetPrefix().GetBlocks()) * size
	if held == 0 {
		return nil
	}
	read := false
	if lacks := held - t.own; lacks > 0 && lacks >= int(t.ticket.GetReadAtLeast()) {
		if err := t.q.Table().Extend(held); err != nil {
			return fmt.Errorf("open blocks for the prefix: %w", err)
		}
		err := t.move(ctx, nixl.Read, t.ticket.GetPrefix().GetBlocks()[t.own/size:], t.own/size, held)
		if err != nil && t.a.ctx.Err() != nil {
			return err
		}
		if read = err == nil; !read {
			t.p.log.WarnContext(ctx, "a prefix could not be read and is computed", "peer", t.peer.String(), "error", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, claimWithin)
	defer cancel()
	answer, err := t.decode.ReleasePrefix(ctx, &decodeworkerv1.ReleasePrefixRequest{TransferId: t.a.key.transfer, AttemptId: t.a.key.attempt})
	if err != nil {
		return fmt.Errorf("release the prefix: %w", err)
	}
	if !read || answer.GetOutcome() != decodeworkerv1.PrefixOutcome_PREFIX_OUTCOME_OK {
		return nil
	}
	prompt := append(t.spec.Prompt[:len(t.spec.Prompt):len(t.spec.Prompt)], t.spec.Generated...)
	if err := t.q.Table().Advance(prompt[t.own:held]); err != nil {
		return fmt.Errorf("take in the prefix: %w", err)
	}
	t.read = held - t.own
	t.q.Imported(t.read)
	return nil
}

// move copies rows between this sequence's blocks, from block index first up to position
// end, and the decode worker's blocks. It returns once nothing of it moves any more.
func (t *task) move(ctx context.Context, op nixl.Op, remote []int32, first, end int) error {
	layout, local := t.p.deps.Worker.Layout(), t.q.Table().Blocks()
	if first+len(remote) > len(local) {
		return fmt.Errorf("%v: the ticket names %d blocks from the %d-th, this sequence has %d", op, len(remote), first, len(local))
	}
	var copies []nixl.Copy
	for i, id := range remote {
		rows := min(layout.BlockTokens, end-(first+i)*layout.BlockTokens)
		copies = nixl.AppendCopies(copies, layout, local[first+i], block.ID(id), rows)
	}
	transfer, err := nixl.Post(ctx, t.p.deps.Worker.Agent, nixl.Request{Peer: t.peer, Op: op, Grant: t.grant(op), Copies: copies})
	if err != nil {
		return fmt.Errorf("post %d copies: %w", len(copies), err)
	}
	return nixl.Settle(ctx, transfer, 0)
}

// firstBlock is the index, among the prompt's blocks, of the first that is written.
func (t *task) firstBlock() int {
	return int(t.ticket.GetFirstPosition()) / t.p.deps.Worker.Layout().BlockTokens
}

// localBlocks are this sequence's blocks, of which there must be n.
func (t *task) localBlocks(n int) ([]block.ID, error) {
	blocks := t.q.Table().Blocks()
	if len(blocks) < n {
		return nil, fmt.Errorf("%d blocks of the prompt are to be written, this sequence has %d", n, len(blocks))
	}
	return blocks, nil
}

// grant is the ticket as the decode worker's agent knows it.
func (t *task) grant(op nixl.Op) *nixl.Grant {
	refs := t.ticket.GetBlocks()
	if op == nixl.Read {
		refs = t.ticket.GetPrefix()
	}
	return &nixl.Grant{Number: t.ticket.GetNumber(), Op: op, Blocks: worker.Refs(refs), Epoch: t.ticket.GetMemoryEpoch()}
}
