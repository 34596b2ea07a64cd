package processor_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/switchyard-llm/switchyard/libs/rpc"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	"github.com/switchyard-llm/switchyard/services/processor"
	"github.com/switchyard-llm/switchyard/services/processor/workertest"
)

// morgue is a row of workers that go silent in the middle of a sequence, so that the test
// can kill them.
type morgue struct {
	*harness
	workers map[string]*workertest.Worker
	silent  chan string
	letters []*generationv1.DeadLetter
}

// admit starts n workers; each sends the tokens that tokens says, and before them the trial of
// a sequence whose turn comes.
func admit(t *testing.T, n int, turn bool, tokens func(attempt int) int) *morgue {
	t.Helper()
	m := &morgue{workers: make(map[string]*workertest.Worker), silent: make(chan string, 9)}
	var list []*workertest.Worker
	for i := range n {
		name := fmt.Sprint("w", i)
		w := workertest.Start(t, name, func(ctx context.Context, s *workertest.Stream, sub *decodeworkerv1.Submit) {
			if turn && sub.GetSequence().GetCrashes() > 0 {
				s.Trial(sub.GetSequenceId())
			}
			s.Batch(sub.GetSequenceId(), nil, workertest.Tokens(sub.GetSequence())[:tokens(int(sub.GetSequence().GetAttempt()))]...)
			m.silent <- name
			<-ctx.Done()
		})
		m.workers[name] = w
		list = append(list, w)
	}
	m.harness = start(t, options{deps: func(d *processor.Deps) {
		d.Died = new(rpc.Deaths).Died
		d.Bury = func(_ context.Context, l *generationv1.DeadLetter) error {
			m.letters = append(m.letters, l)
			return nil
		}
	}}, list...)
	return m
}

// attempt waits until an attempt's worker has gone silent, and answers the worker and what it was given.
func (m *morgue) attempt(t *testing.T) (*workertest.Worker, *generationv1.Sequence) {
	t.Helper()
	w := m.workers[<-m.silent]
	return w, next(t, w).GetSubmit().GetSequence()
}

// proceeds waits for the answer to a trial.
func proceeds(t *testing.T, w *workertest.Worker) {
	t.Helper()
	if got := next(t, w); got.GetProceed() == nil {
		t.Fatalf("the worker received %v, want a proceed", got)
	}
}

func TestARequestThatKillsTwoWorkersIsGivenToNoThird(t *testing.T) {
	for _, after := range []int{0, 3} {
		m := admit(t, 3, true, func(int) int { return after })
		stream := m.open(t, request("killer", 40))
		var died []string
		for crashes := range 2 {
			w, sub := m.attempt(t)
			stream.read(t, after)
			if int(sub.GetCrashes()) != crashes {
				t.Errorf("attempt %d has %d crashes, want %d", sub.GetAttempt(), sub.GetCrashes(), crashes)
			}
			if crashes > 0 {
				proceeds(t, w)
			}
			died = append(died, w.Name)
			w.Kill()
		}
		r := stream.rest()
		if rpc.Code(r.err) != codes.Internal || rpc.Reason(r.err) != "REQUEST_CRASHED_WORKER" || !strings.Contains(r.err.Error(), died[0]) {
			t.Errorf("after %d tokens: %v, want INTERNAL with the reason REQUEST_CRASHED_WORKER", after, r.err)
		}
		if len(m.silent) > 0 {
			t.Error("a third worker was given the request")
		}
		if len(m.letters) != 1 {
			t.Fatalf("dead letters %v, want one", m.letters)
		}
		l := m.letters[0]
		if l.GetRequestId() != "r-killer" || l.GetModel() != modelName || l.GetPromptTokens() != 6 || int(l.GetGeneratedTokens()) != 2*after {
			t.Errorf("dead letter %v", l)
		}
		for i, d := range l.GetDeaths() {
			if d.GetWorker() != died[i] || d.GetIncarnation() != "1" || d.GetAlone() != (i == 1) || d.GetError() == "" {
				t.Errorf("death %d is %v, want that of %s", i, d, died[i])
			}
		}
	}
}

// Each of these meets two deaths by chance.
func TestARequestThatTwoWorkersDiedWithByChanceIsAnswered(t *testing.T) {
	for name, c := range map[string]struct {
		turn   bool // comes before the second death
		tokens int  // of each attempt
		end    func(w *workertest.Worker)
		counts [3]int // what each attempt is told
	}{
		"it has come on between the deaths":    {true, 9, (*workertest.Worker).Kill, [3]int{0, 1, 1}},
		"its turn had not come":                {false, 0, (*workertest.Worker).Kill, [3]int{0, 1, 1}},
		"only the connections were lost":       {true, 0, (*workertest.Worker).Break, [3]int{0, 0, 0}},
		"it has come on, and they lived still": {true, 9, (*workertest.Worker).Break, [3]int{0, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			m := admit(t, 3, c.turn, func(attempt int) int {
				if attempt == 3 {
					return 40 - 2*c.tokens
				}
				return c.tokens
			})
			stream := m.open(t, request("innocent", 40))
			for attempt := range 3 {
				w, sub := m.attempt(t)
				if int(sub.GetCrashes()) != c.counts[attempt] {
					t.Errorf("attempt %d has %d crashes, want %d", sub.GetAttempt(), sub.GetCrashes(), c.counts[attempt])
				}
				if c.turn && sub.GetCrashes() > 0 {
					proceeds(t, w)
				}
				if attempt < 2 {
					stream.read(t, c.tokens)
					c.end(w)
					if c.counts[2] == 0 { // it is picked again as soon as it is back
						waitHello(t, w)
					}
				}
			}
			if r := stream.rest(); r.err != nil || r.text != expected("innocent", 40) {
				t.Errorf("text %q, %v; want %q", r.text, r.err, expected("innocent", 40))
			}
			if len(m.letters) > 0 {
				t.Errorf("dead letters %v, want none", m.letters)
			}
		})
	}
}

func TestADeathOfThePrefillWorkerCounts(t *testing.T) {
	calls := make(chan *generationv1.Sequence, 9)
	w := workertest.Start(t, "w", func(ctx context.Context, s *workertest.Stream, sub *decodeworkerv1.Submit) {
		calls <- sub.GetSequence()
		if sub.GetSequence().GetCrashes() > 0 {
			workertest.Answer(ctx, s, sub)
			return
		}
		s.Batch(sub.GetSequenceId(), &decodeworkerv1.Ended{
			Reason: generationv1.FinishReason_FINISH_REASON_ERROR, Code: uint32(codes.Aborted), Message: "prefill worker p died",
			CrashedWorker: "p", CrashedIncarnation: "5",
		})
	})
	h := start(t, options{}, w)
	if r := h.generate(t.Context(), request("x", 9)); r.err != nil || r.text != expected("x", 9) {
		t.Errorf("text %q, %v", r.text, r.err)
	}
	if first, second := <-calls, <-calls; first.GetCrashes() != 0 || second.GetCrashes() != 1 || len(calls) > 0 {
		t.Errorf("attempts %v and %v, want the second on trial and no third", first, second)
	}
}
