package processor_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/rpc/local"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/tokenizertest"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	processorv1 "github.com/switchyard-llm/switchyard/proto/switchyard/processor/v1"
	"github.com/switchyard-llm/switchyard/services/processor/workertest"
)

// BenchmarkToken is a token's way from a worker's Send to a chunk in the same process as
// the processor: the attach stream over loopback, detokenizing, stop texts, the chunk.
// The worker sends a batch of 32 tokens at a time, as a step over 32 sequences does.
func BenchmarkToken(b *testing.B) {
	const tokens = 200
	for _, c := range []struct {
		clients int
		stop    []string
	}{{1, nil}, {32, nil}, {32, []string{"\n\nUser:", "###"}}} {
		b.Run(fmt.Sprintf("clients%d/stops%d", c.clients, len(c.stop)), func(b *testing.B) {
			step := &stepper{size: c.clients}
			w := workertest.Start(b, "w", step.behave)
			h := start(b, options{}, w)
			conn := local.New(local.Options{Stream: rpc.StreamInterceptor(slog.New(slog.DiscardHandler))})
			defer conn.Close()
			processorv1.RegisterProcessorServer(conn, h.processor)
			h.ProcessorClient = processorv1.NewProcessorClient(conn)
			b.ReportAllocs()
			b.ResetTimer()
			for done := 0; done < b.N; done += tokens * c.clients {
				var clients sync.WaitGroup
				for range c.clients {
					clients.Go(func() {
						if r := h.generate(b.Context(), request("hello", tokens, c.stop...)); r.err != nil || len(r.text) != tokens {
							b.Errorf("%d bytes, %v", len(r.text), r.err)
						}
					})
				}
				clients.Wait()
			}
		})
	}
}

// stepper sends the tokens of all sequences of a round together.
type stepper struct {
	size int

	mu  sync.Mutex
	ids []uint32
}

func (p *stepper) behave(_ context.Context, s *workertest.Stream, sub *decodeworkerv1.Submit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ids = append(p.ids, sub.GetSequenceId()); len(p.ids) < p.size {
		return
	}
	batch := &decodeworkerv1.StepBatch{SequenceIds: p.ids}
	for range p.ids {
		batch.Tokens = append(batch.Tokens, tokenizertest.FirstByte+'a')
	}
	n := int(sub.GetSequence().GetMaxTokens())
	for i := range n {
		if i == n-1 {
			for _, id := range p.ids {
				batch.Ended = append(batch.Ended, &decodeworkerv1.Ended{SequenceId: id, Reason: generationv1.FinishReason_FINISH_REASON_LENGTH})
			}
		}
		s.Send(&decodeworkerv1.AttachResponse{Message: &decodeworkerv1.AttachResponse_Batch{Batch: batch}})
	}
	p.ids = nil
}
