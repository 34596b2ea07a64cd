package frontend

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	processorv1 "github.com/switchyard-llm/switchyard/proto/switchyard/processor/v1"
)

// modelAnswer bounds the wait for one processor's answer. A frozen one must not cost the caller's
// whole deadline: the others' answers are to arrive within it.
const modelAnswer = 2 * time.Second

// Models implements processorv1.ProcessorClient: it asks a processor of each model, all at once. One that
// does not answer leaves its model out; where none does, the error is the first one's.
func (p *processors) Models(ctx context.Context, in *processorv1.ModelsRequest, opts ...grpc.CallOption) (*processorv1.ModelsResponse, error) {
	wait := modelAnswer
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(deadline)*3/4)
	}
	bounded, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	var asking sync.WaitGroup
	var all lists
	for name, m := range *p.known.Load() {
		if m.left.IsZero() {
			asking.Go(func() {
				list, err := m.client.Models(bounded, in, opts...)
				all.add(name, list.GetModels(), err)
			})
		}
	}
	asking.Wait()
	if all.answered == 0 {
		return nil, cmp.Or(all.failure, errNoProcessor())
	}
	slices.SortFunc(all.models, func(a, b *processorv1.Model) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return &processorv1.ModelsResponse{Models: all.models}, nil
}

// lists collects what processors answer.
type lists struct {
	mu       sync.Mutex // guards the rest
	models   []*processorv1.Model
	answered int
	failure  error // the first
}

// add takes what a processor of a model says of it, which is nothing while no worker serves it.
func (l *lists) add(model string, list []*processorv1.Model, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.failure = cmp.Or(l.failure, err)
		return
	}
	l.answered++
	for _, m := range list {
		if m.GetName() == model {
			l.models = append(l.models, m)
			return
		}
	}
}
