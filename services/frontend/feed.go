package frontend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"
	"sync/atomic"

	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	"github.com/switchyard-llm/switchyard/services/frontend/openai"
)

// maxParts is how many prompts of one request are with the processor at a time; the others
// wait for one of them to end.
const maxParts = 64

// feedPieces is how many pieces wait for a slow client before the streams are left unread, and
// the processor waits.
const feedPieces = 64

// feed is the intake of several streams, some of them at a time.
type feed struct {
	ctx   context.Context // of the answer
	ready chan struct{}   // capacity 1: pieces were put, or the reading has ended
	done  chan struct{}   // closed when the reading has ended

	taken []piece // what next gave last

	mu    sync.Mutex // guards the rest
	queue []piece
	full  chan struct{} // closed when the queue is taken; nil: nobody waits for that
	err   error         // why the reading has ended: io.EOF if each stream came to its end; nil before
}

var _ intake = (*feed)(nil)

// startFeed reads until all streams, or one with an error, or ctx end.
func startFeed(ctx context.Context, from source) *feed {
	f := &feed{ctx: ctx, ready: make(chan struct{}, 1), done: make(chan struct{})}
	go func() {
		defer close(f.done)
		f.end(f.readAll(ctx, from))
	}()
	return f
}

// readAll reads all streams. The first error ends the others.
func (f *feed) readAll(ctx context.Context, from source) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var readers sync.WaitGroup
	for range min(from.parts, maxParts) {
		readers.Go(func() {
			for ctx.Err() == nil {
				part := int(next.Add(1)) - 1
				if part >= from.parts {
					return
				}
				if err := f.read(ctx, from, part); err != nil {
					cancel(ofPart(err, part)) // only the first is the cause
				}
			}
		})
	}
	readers.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return io.EOF
}

// read reads one stream to its end.
func (f *feed) read(ctx context.Context, from source, part int) (err error) {
	defer brokenByPanic(&err)
	r, err := from.reader(ctx, part)
	if err != nil {
		return err
	}
	for {
		chunks, err := r.chunks()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := f.put(ctx, part, chunks); err != nil {
			return err
		}
	}
}

// brokenByPanic is deferred in a goroutine where nobody above could make an answer of a panic.
func brokenByPanic(err *error) {
	if p := recover(); p != nil {
		*err = openai.Broken(fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
	}
}

// put queues what came together, once there is room for some of it.
func (f *feed) put(ctx context.Context, part int, chunks []*generationv1.Chunk) error {
	f.mu.Lock()
	for len(f.queue) >= feedPieces {
		if f.full == nil {
			f.full = make(chan struct{})
		}
		full := f.full
		f.mu.Unlock()
		select {
		case <-full:
		case <-ctx.Done():
			return ctx.Err()
		}
		f.mu.Lock()
	}
	for _, c := range chunks {
		f.queue = append(f.queue, piece{part, c})
	}
	f.mu.Unlock()
	f.signal()
	return nil
}

func (f *feed) end(err error) {
	f.mu.Lock()
	f.err = err
	f.mu.Unlock()
	f.signal()
}

func (f *feed) signal() {
	select {
	case f.ready <- struct{}{}:
	default:
	}
}

func (f *feed) next() ([]piece, error) {
	for {
		if err := f.take(); len(f.taken) > 0 || err != nil {
			return f.taken, err
		}
		select {
		case <-f.ready:
		case <-f.ctx.Done():
			return nil, f.ctx.Err()
		}
	}
}

// take empties the queue, which goes on in the memory of what was taken before. If it is empty
// already, it says whether the reading has ended.
func (f *feed) take() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.taken, f.queue = f.queue, f.taken[:0]
	if f.full != nil {
		close(f.full)
		f.full = nil
	}
	if len(f.taken) > 0 {
		return nil
	}
	return f.err
}

func (f *feed) close() { <-f.done }
