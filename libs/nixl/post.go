package nixl

import (
	"context"
	"errors"
	"time"

	"github.com/switchyard-llm/switchyard/libs/block"
)

// Post creates a transfer from copies and posts it. Who waits for its end releases it.
func Post(ctx context.Context, a Agent, r Request) (Transfer, error) {
	t, err := a.Create(r)
	if err != nil {
		return nil, err
	}
	if err := t.Post(ctx); err != nil {
		return nil, errors.Join(err, t.Release())
	}
	return t, nil
}

// Settle waits for a transfer's end and releases it. When ctx ends first, the transfer is
// cancelled and waited for, for at most patience; 0 is as long as it takes: a step of it is
// short, or its transport ends it. On ErrUnsettled it is not released.
func Settle(ctx context.Context, t Transfer, patience time.Duration) error {
	err := t.Wait(ctx)
	if errors.Is(err, ErrUnsettled) && ctx.Err() != nil {
		t.Cancel()
		rest := context.WithoutCancel(ctx)
		if patience > 0 {
			var cancel context.CancelFunc
			rest, cancel = context.WithTimeout(rest, patience)
			defer cancel()
		}
		if last := t.Wait(rest); last != nil {
			err = last
		} else {
			err = ctx.Err() // it was complete after all, too late
		}
	}
	if errors.Is(err, ErrUnsettled) {
		return err
	}
	return errors.Join(err, t.Release())
}

// AppendCopies adds the runs of the first rows of one block. Both sides have the layout.
func AppendCopies(copies []Copy, layout block.Layout, local, remote block.ID, rows int) []Copy {
	shift := (int(remote) - int(local)) * layout.BlockBytes()
	for span := range layout.Spans(local, 0, rows) {
		copies = append(copies, Copy{Local: span, Remote: block.Span{Offset: span.Offset + shift, Bytes: span.Bytes}})
	}
	return copies
}
