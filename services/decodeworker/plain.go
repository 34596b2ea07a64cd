package decodeworker

import (
	"google.golang.org/grpc"

	"github.com/switchyard-llm/switchyard/libs/rpc"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
)

// Generate implements decodeworkerv1.DecodeWorkerServer.
func (d *DecodeWorker) Generate(r *decodeworkerv1.GenerateRequest, stream grpc.ServerStreamingServer[decodeworkerv1.GenerateResponse]) error {
	if r.GetSequence() == nil {
		return rpc.InvalidArgument("sequence", "a sequence")
	}
	ctx, cancel := bounded(stream.Context(), r.GetSequence())
	defer cancel()
	box := newOutbox()
	g, err := d.submit(r.GetSequence(), box.add(0))
	if err != nil {
		return err
	}
	done := make(chan struct{})
	go func() { defer close(done); g.run(ctx) }()
	defer func() { cancel(); <-done }()
	for {
		batch := box.take()
		if batch == nil {
			<-box.wake // the sequence's end comes in any case, also after a cancel
			continue
		}
		m := &decodeworkerv1.GenerateResponse{Tokens: batch.Tokens}
		for _, e := range batch.Logprobs { // all tokens are of one sequence, so one for each or none
			m.Logprobs = append(m.Logprobs, e.Logprobs)
		}
		if len(batch.Ended) > 0 {
			m.Ended = batch.Ended[0]
		}
		if err := stream.Send(m); err != nil || m.Ended != nil {
			return err
		}
	}
}
