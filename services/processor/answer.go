package processor

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/switchyard-llm/switchyard/libs/sequence"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	"github.com/switchyard-llm/switchyard/services/processor/output"
)

// endWait bounds the wait for the worker's last word, once the answer is complete. It has
// the counts; the answer is right without them.
const endWait = time.Second

// answer turns the attempts of one request into its chunks.
type answer struct {
	p        *Processor
	req      *generationv1.Request
	base     *generationv1.Sequence
	text     *output.Text
	emit     func(*generationv1.Chunk) error
	started  time.Time
	created  *timestamppb.Timestamp
	first    time.Duration // from started to the first token; 0: none yet
	chunks   int
	attempts uint32
	spare    []sequence.Token
}

// run generates until the answer is complete. Tokens of an attempt that broke are kept,
// and the next one goes on from there.
func (a *answer) run(ctx context.Context) (err error) {
	requestCtx := ctx
	ctx, span := a.p.tracer.Start(ctx, "processor.output")
	defer func() { a.endSpan(span, err) }()
	d := &dispatcher{p: a.p, base: a.base, session: a.req.GetSession(), worker: a.req.GetDecodeWorker()}
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
		tokens, end, err := run.Take(ctx, a.spare)
		if err != nil {
			return err
		}
		run.took(len(tokens))
		for _, t := range tokens {
			text := a.text.Push(t)
			if a.text.Finish() != sequence.Unfinished {
				a.mark()
				return a.complete(ctx, run, end, text)
			}
			if first := a.mark(); text != "" || first {
				if err := a.send(&generationv1.Chunk{Text: text}); err != nil {
					return err
				}
			}
		}
		a.spare = tokens
		if end != nil {
			return a.ended(ctx, run, end)
		}
	}
}

// mark notes the time of the first token and says whether this was it.
func (a *answer) mark() bool {
	if a.first != 0 {
		return false
	}
	a.first = max(time.Since(a.started), 1)
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
			if err := a.send(&generationv1.Chunk{Text: text}); err != nil {
				return err
			}
			text = ""
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
	generated := len(a.text.Tokens())
	return a.send(&generationv1.Chunk{
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
}

// lastWord is the worker's end, or nil when the worker is silent or lost: the answer is
// complete all the same.
func (a *answer) lastWord(ctx context.Context, run *dispatch) *decodeworkerv1.Ended {
	ctx, cancel := context.WithTimeout(ctx, endWait)
	defer cancel()
	for {
		_, end, err := run.Take(ctx, nil)
		if err != nil || end != nil {
			return end
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

// send completes a chunk and hands it out; it is not touched afterwards.
func (a *answer) send(c *generationv1.Chunk) error {
	a.chunks++
	c.Id, c.Created, c.Model = a.req.GetRequestId(), a.created, a.req.GetModel()
	return a.emit(c)
}

func (a *answer) endSpan(span trace.Span, err error) {
	span.SetAttributes(
		attribute.Int("switchyard.generated_tokens", len(a.text.Tokens())), attribute.Int("switchyard.chunks", a.chunks),
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
