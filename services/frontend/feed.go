package frontend

import (
	"context"

	"google.golang.org/grpc"

	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	processorv1 "github.com/switchyard-llm/switchyard/proto/switchyard/processor/v1"
)

// feed reads a processor's stream ahead, up to a bound: so that whoever writes to the
// client can see whether more is waiting, and can do something while nothing comes. When
// the bound is reached the stream is left unread, and the processor waits.
type feed struct {
	chunks chan *generationv1.Chunk // closed after the last
	err    error                    // how the stream ended; valid once chunks is closed
}

// startFeed reads until the stream or ctx ends. The caller cancels ctx and calls wait.
func startFeed(ctx context.Context, stream grpc.ServerStreamingClient[processorv1.GenerateResponse], bound int) *feed {
	f := &feed{chunks: make(chan *generationv1.Chunk, bound)}
	go func() {
		defer close(f.chunks)
		f.err = f.read(ctx, stream)
	}()
	return f
}

func (f *feed) read(ctx context.Context, stream grpc.ServerStreamingClient[processorv1.GenerateResponse]) error {
	for {
		r, err := stream.Recv()
		if err != nil {
			return err
		}
		if r.GetChunk() == nil {
			continue
		}
		select {
		case f.chunks <- r.GetChunk():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// waiting tells whether the next chunk is there already.
func (f *feed) waiting() bool { return len(f.chunks) > 0 }

// wait returns when the reading has ended.
func (f *feed) wait() {
	for range f.chunks { // what nobody wants any more
	}
}
