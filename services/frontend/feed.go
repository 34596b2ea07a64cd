package frontend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"

	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	processorv1 "github.com/switchyard-llm/switchyard/proto/switchyard/processor/v1"
	"github.com/switchyard-llm/switchyard/services/frontend/openai"
)

// maxParts is how many prompts of one request are with the processor at a time; the others
// wait for one of them to end.
const maxParts = 64

// feed reads a processor's streams ahead, up to a bound: so that whoever writes to the
// client can see whether more is waiting, and can do something while nothing comes. When
// the bound is reached the streams are left unread, and the processor waits.
type feed struct {
	bound int
	ready chan struct{} // capacity 1: pieces were put, or the reading has ended
	done  chan struct{} // closed when the reading has ended

	taken []piece // of one goroutine: what it has taken and not looked at yet
	spare []piece // memory for the queue, or nil

	mu    sync.Mutex // guards the rest
	queue []piece
	full  chan struct{} // closed when the queue is taken; nil: nobody waits for that
	ended bool
	err   error // how the streams ended: nil if each came to its end
}

// piece is a chunk of the answer to one prompt.
type piece struct {
	part  int
	chunk *generationv1.Chunk
}

type chunkStream = grpc.ServerStreamingClient[processorv1.GenerateResponse]

// source is where a feed reads.
type source struct {
	parts   int // streams
	choices int // that end in each
	open    func(ctx context.Context, part int) (chunkStream, error)
}

// startFeed reads until all streams, or one with an error, or ctx end. The caller cancels
// ctx and calls wait.
func startFeed(ctx context.Context, from source, bound int) *feed {
	f := &feed{bound: bound, ready: make(chan struct{}, 1), done: make(chan struct{})}
	go func() {
		defer close(f.done)
		if from.parts == 1 {
			f.end(f.read(ctx, from, 0))
			return
		}
		f.end(f.readAll(ctx, from))
	}()
	return f
}

// readAll reads several streams, some at a time. The first error ends the others.
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
	return context.Cause(ctx)
}

// ofPart tells which of several prompts an error is about.
func ofPart(err error, part int) error {
	e := openai.ErrorOf(err)
	if e.Param != "prompt" {
		return err
	}
	named := *e
	named.Param = fmt.Sprintf("prompt[%d]", part)
	return &named
}

// read reads one stream to its end.
func (f *feed) read(ctx context.Context, from source, part int) (err error) {
	defer func() { // nobody above could make an answer of it
		if p := recover(); p != nil {
			err = openai.Broken(fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
		}
	}()
	stream, err := from.open(ctx, part)
	if err != nil {
		return err
	}
	ended := 0
	for {
		r, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF) && ended < from.choices:
			return openai.Broken(errors.New("the processor's stream ended before the answer did"))
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		for _, c := range r.GetChunks() {
			if c.GetFinishReason() != generationv1.FinishReason_FINISH_REASON_UNSPECIFIED {
				ended++
			}
		}
		if err := f.put(ctx, part, r.GetChunks()); err != nil {
			return err
		}
	}
}

// put queues what came together, once there is room for some of it.
func (f *feed) put(ctx context.Context, part int, chunks []*generationv1.Chunk) error {
	f.mu.Lock()
	for len(f.queue) >= f.bound {
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
	f.ended, f.err = true, err
	f.mu.Unlock()
	f.signal()
}

func (f *feed) signal() {
	select {
	case f.ready <- struct{}{}:
	default:
	}
}

// next is the next piece, if one is there already. One goroutine calls it.
func (f *feed) next() (p piece, ok bool) {
	if len(f.taken) == 0 {
		f.take()
	}
	if len(f.taken) == 0 {
		return piece{}, false
	}
	p, f.taken = f.taken[0], f.taken[1:]
	return p, true
}

// take empties the queue, which goes on in the memory of what was taken before.
func (f *feed) take() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.taken, f.queue = f.queue, f.spare[:0]
	f.spare = f.taken
	if f.full != nil {
		close(f.full)
		f.full = nil
	}
}

// over tells whether nothing more comes, and why.
func (f *feed) over() (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ended && len(f.queue) == 0, f.err
}

// waiting tells whether the next piece is there already. The goroutine of next calls it.
func (f *feed) waiting() bool {
	if len(f.taken) > 0 {
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.queue) > 0
}

// wait returns when the reading has ended.
func (f *feed) wait() { <-f.done }
