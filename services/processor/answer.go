package processor

import (
	"cmp"
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/switchyard-llm/switchyard/libs/sequence"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	"github.com/switchyard-llm/switchyard/services/processor/output"
)

// endWait bounds the wait for the worker's last word, once the answer is complete. It has
// the counts; the answer is right without them.
const endWait = time.Second

// answer turns the attempts of one choice into its chunks.
type answer struct {
	*work
	choice   uint32
	near     string              // the worker that has the prompt already; empty: not known
	begun    func(worker string) // told once, when the prompt is computed. Nil: nobody waits for it
	text     *output.Text
	told     told
	first    time.Duration         // from started to the first token; 0: none yet
	sent     int                   // chunks
	waiting  []*generationv1.Chunk // to be sent with those that follow at once
	room     []generationv1.Chunk  // for further chunks
	attempts uint32
	spare    []sequence.Token
}

// run generates until the answer is complete. Tokens of an attempt that broke are kept,
// and the next one goes on from there.
func (a *answer) run(ctx context.Context) (err error) {
	requestCtx := ctx
	ctx, span := a.p.tracer.Start(ctx, "processor.output")
	defer func() { a.endSpan(span, err) }()
	d := &dispatcher{p: a.p, base: a.base, choice: a.choice, session: a.req.GetSession(), worker: a.req.GetDecodeWorker(), near: a.near}
	for {
		run, err := d.next(requestCtx, a.text.Tokens())
		if err != nil {
			return err
		}
		a.attempts = d.attempt
		err = a.follow(ctx, run)
		if err == nil {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := d.failed(ctx, run, err, len(a.text.Tokens())); err != nil {
			return err
		}
		span.AddEvent("migrate", trace.WithAttributes(
			attribute.String("switchyard.decode_worker", run.choice.Worker.Name), attribute.String("error", err.Error())))
		a.p.log.InfoContext(ctx, "request goes to another decode worker", "request_id", a.req.GetRequestId(),
			"worker_id", run.choice.Worker.Name, "generated_tokens", len(a.text.Tokens()), "error", err)
		a.p.metrics.migrations.Add(ctx, 1)
	}
}

// follow delivers what one attempt generates. It returns nil when the answer is complete.
func (a *answer) follow(ctx context.Context, run *dispatch) error {
	defer run.close("the request has ended")
	for {
		got, err := run.Take(ctx, a.spare)
		if err != nil {
			return err
		}
		tokens, end := got.Tokens, got.End
		a.expect(len(tokens))
		a.told.logprobs = append(a.told.logprobs, got.LogProbs...)
		run.took(len(tokens))
		for _, t := range tokens {
			text := a.text.Push(t)
			if a.text.Finish() != sequence.Unfinished {
				a.mark(run)
				return a.complete(ctx, run, end, text)
			}
			if first := a.mark(run); text != "" || first {
				if err := a.send(a.chunk(text)); err != nil {
					return err
				}
			}
		}
		if err := a.flush(); err != nil {
			return err
		}
		a.spare = tokens
		if end != nil {
			return a.ended(ctx, run, end)
		}
	}
}

// mark notes the time of the first token and says whether this was it.
func (a *answer) mark(run *dispatch) bool {
	if a.first != 0 {
		return false
	}
	a.first = max(time.Since(a.started), 1)
	if a.begun != nil {
		a.begun(run.choice.Worker.Name)
	}
	return true
}

// ended takes a worker's end that the tokens did not show.
func (a *answer) ended(ctx context.Context, run *dispatch, end *decodeworkerv1.Ended) error {
	switch end.GetReason() {
	case generationv1.FinishReason_FINISH_REASON_STOP:
		return a.complete(ctx, run, end, a.text.End(sequence.FinishStop))
	case generationv1.FinishReason_FINISH_REASON_LENGTH:
		return a.complete(ctx, run, end, a.text.End(sequence.FinishLength))
	case generationv1.FinishReason_FINISH_REASON_CANCELLED: // nobody here asked for it
		return &workerError{worker: run.choice.Worker.Name, code: codes.Canceled, message: "the worker gave the sequence up"}
	default:
		return &workerError{
			worker: run.choice.Worker.Name, code: codes.Code(end.GetCode()), message: end.GetMessage(),
			crashed: end.GetCrashedWorker(), incarnation: end.GetCrashedIncarnation(),
		}
	}
}

// complete delivers the last text and the last chunk. A worker that does not know of the
// end is stopped at once; its last word is waited for, but not for long.
func (a *answer) complete(ctx context.Context, run *dispatch, end *decodeworkerv1.Ended, text string) error {
	if end == nil {
		if a.text.Cut() {
			run.cancel("stop text")
		}
		if text != "" {
			if err := a.send(a.chunk(text)); err != nil {
				return err
			}
			text = ""
		}
		if err := a.flush(); err != nil {
			return err
		}
		end = a.lastWord(ctx, run)
	}
	a.remember(run)
	if end != nil {
		run.ended(ctx, int(end.GetCachedTokens()))
	}
	if end.GetPlacement() == generationv1.Placement_PLACEMENT_REMOTE {
		a.p.router.ComputedAt(end.GetPrefillWorker(), a.base.GetCacheSalt(), run.request.Tokens)
	}
	a.mark(run) // an answer may end without a token
	generated := len(a.text.Tokens())
	err := a.send(&generationv1.Chunk{
		Text:         text,
		FinishReason: finishReason(a.text.Finish()),
		Usage: &generationv1.Usage{
			PromptTokens: uint32(len(a.base.GetPrompt())), CompletionTokens: uint32(generated),
			// After a migration generated tokens may have been resident, too.
			CachedTokens: min(end.GetCachedTokens(), uint32(len(a.base.GetPrompt()))),
		},
		Served: &generationv1.Served{
			DecodeWorker: run.choice.Worker.Name, Placement: end.GetPlacement(), PrefillWorker: end.GetPrefillWorker(),
			TimeToFirstToken: durationpb.New(a.first),
		},
	})
	return cmp.Or(err, a.flush())
}

// lastWord is the worker's end, or nil when the worker is silent or lost: the answer is
// complete all the same.
func (a *answer) lastWord(ctx context.Context, run *dispatch) *decodeworkerv1.Ended {
	ctx, cancel := context.WithTimeout(ctx, endWait)
	defer cancel()
	for {
		got, err := run.Take(ctx, nil)
		if err != nil || got.End != nil {
			return got.End
		}
	}
}

// remember tells the router what the worker holds now: all but the last token, whose keys
// and values were never computed.
func (a *answer) remember(run *dispatch) {
	if generated := a.text.Tokens(); len(generated) > 1 {
		tokens := append(a.base.GetPrompt()[:len(a.base.GetPrompt()):len(a.base.GetPrompt())], generated[:len(generated)-1]...)
		a.p.router.Remember(run.choice.Worker, a.base.GetCacheSalt(), tokens)
	}
}

// expect makes room for the chunks of tokens that came together: one allocation for all.
func (a *answer) expect(tokens int) {
	n := min(tokens, waitingMost)
	if len(a.room) < n {
		a.room = make([]generationv1.Chunk, n)
	}
	if cap(a.waiting) < n {
		a.waiting = make([]*generationv1.Chunk, 0, n)
	}
}

// chunk begins a chunk.
func (a *answer) chunk(text string) *generationv1.Chunk {
	if len(a.room) == 0 {
		a.room = make([]generationv1.Chunk, 1)
	}
	c := &a.room[0]
	a.room, c.Text = a.room[1:], text
	return c
}

// waitingMost is how many chunks are sent together at most.
const waitingMost = 64

// send completes a chunk, which goes out with the next flush. It is not touched afterwards.
func (a *answer) send(c *generationv1.Chunk) error {
	c.Id, c.Created, c.Model, c.Choice = a.req.GetRequestId(), a.created, a.req.GetModel(), a.choice
	if a.sent == 0 {
		c.Text = a.echo + c.Text
	}
	a.tell(c)
	a.sent++
	if a.waiting = append(a.waiting, c); len(a.waiting) < waitingMost {
		return nil
	}
	return a.flush()
}

// flush hands out the chunks that wait.
func (a *answer) flush() error {
	if len(a.waiting) == 0 {
		return nil
	}
	chunks := a.waiting
	a.waiting = nil
	return a.emit(chunks)
}

func (a *answer) endSpan(span trace.Span, err error) {
	span.SetAttributes(
		attribute.Int("switchyard.generated_tokens", len(a.text.Tokens())), attribute.Int("switchyard.chunks", a.sent),
		attribute.Int("switchyard.attempts", int(a.attempts)), attribute.String("switchyard.finish", a.text.Finish().String()),
		attribute.Float64("switchyard.time_to_first_token_seconds", a.first.Seconds()))
	endSpan(span, err)
}

func finishReason(f sequence.Finish) generationv1.FinishReason {
	if f == sequence.FinishLength {
		return generationv1.FinishReason_FINISH_REASON_LENGTH
	}
	return generationv1.FinishReason_FINISH_REASON_STOP
}
