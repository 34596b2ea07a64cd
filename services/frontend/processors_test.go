package frontend

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/switchyard-llm/switchyard/libs/rpc"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	processorv1 "github.com/switchyard-llm/switchyard/proto/switchyard/processor/v1"
)

// listed is a processor that lists models, or fails, after a while.
type listed struct {
	processorv1.ProcessorClient
	models []*processorv1.Model
	err    error
	after  time.Duration
}

func (l listed) Models(ctx context.Context, _ *processorv1.ModelsRequest, _ ...grpc.CallOption) (*processorv1.ModelsResponse, error) {
	select {
	case <-time.After(l.after):
		return &processorv1.ModelsResponse{Models: l.models}, l.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l listed) Tokenize(context.Context, *processorv1.TokenizeRequest, ...grpc.CallOption) (*processorv1.TokenizeResponse, error) {
	return &processorv1.TokenizeResponse{}, l.err
}

func withModels(models map[string]served) *processors {
	p := newProcessors(time.Minute)
	p.known.Store(&models)
	return p
}

func namedModel(name string) *processorv1.Model {
	return &processorv1.Model{Name: name, ContextTokens: 7}
}

func TestTheModelsOfAllProcessorsAreOneList(t *testing.T) {
	broken := errors.New("broken")
	lists := func(names ...string) served {
		var l listed
		for _, name := range names {
			l.models = append(l.models, namedModel(name))
		}
		return served{client: l}
	}
	for name, c := range map[string]struct {
		models map[string]served
		want   []string
		code   codes.Code
	}{
		"sorted":               {map[string]served{"b/c": lists("b/c"), "a": lists("a"), "ü": lists("ü")}, []string{"a", "b/c", "ü"}, codes.OK},
		"its own only":         {map[string]served{"a": lists("x", "a"), "x": lists("x")}, []string{"a", "x"}, codes.OK},
		"without a worker":     {map[string]served{"a": lists(), "b": lists("b")}, []string{"b"}, codes.OK},
		"none with a worker":   {map[string]served{"a": lists()}, nil, codes.OK},
		"one fails":            {map[string]served{"a": {client: listed{err: broken}}, "b": lists("b")}, []string{"b"}, codes.OK},
		"one is frozen":        {map[string]served{"a": {client: listed{after: time.Hour}}, "b": lists("b")}, []string{"b"}, codes.OK},
		"one left":             {map[string]served{"a": {left: time.Now()}, "b": lists("b")}, []string{"b"}, codes.OK},
		"all fail":             {map[string]served{"a": {client: listed{err: rpc.Unavailable("x")}}}, nil, codes.Unavailable},
		"all are frozen":       {map[string]served{"a": {client: listed{after: time.Hour}}}, nil, codes.DeadlineExceeded},
		"no processor":         {nil, nil, codes.Unavailable},
		"none that has stayed": {map[string]served{"a": {left: time.Now()}}, nil, codes.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				got, err := withModels(c.models).Models(ctx, &processorv1.ModelsRequest{})
				if rpc.Code(err) != c.code || ctx.Err() != nil {
					t.Fatalf("%v within %v, want %v", err, ctx.Err(), c.code)
				}
				var want []*processorv1.Model
				for _, name := range c.want {
					want = append(want, namedModel(name))
				}
				if diff := cmp.Diff(want, got.GetModels(), protocmp.Transform()); diff != "" {
					t.Errorf("models (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestARequestGoesToItsModelOrIsToldWhyNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := withModels(map[string]served{"a": {client: listed{}}, "b": {client: listed{}, left: time.Now()}})
		check := func(model string, code codes.Code, say string) {
			t.Helper()
			in := &generationv1.Request{Model: model}
			_, err := p.Tokenize(t.Context(), &processorv1.TokenizeRequest{Request: in})
			if rpc.Code(err) != code || err != nil && !strings.Contains(rpc.Message(err), say) {
				t.Errorf("%q: %v, want %v with %q", model, err, code, say)
			}
			if err == nil {
				return
			}
			_, generate := p.Generate(t.Context(), &processorv1.GenerateRequest{Request: in})
			_, detokenize := p.Detokenize(t.Context(), &processorv1.DetokenizeRequest{Request: in})
			_, explain := p.ExplainRoute(t.Context(), &processorv1.ExplainRouteRequest{Request: in})
			for _, other := range []error{generate, detokenize, explain} {
				if other == nil || other.Error() != err.Error() {
					t.Errorf("%q: %v, want %v as of Tokenize", model, other, err)
				}
			}
		}
		check("a", codes.OK, "")
		check("c", codes.NotFound, `model "c" not found`)
		check("", codes.InvalidArgument, "model")
		check("b", codes.Unavailable, `"b" at present`)
		time.Sleep(p.keep) // within the bubble
		check("b", codes.NotFound, `model "b" not found`)
		p = withModels(map[string]served{})
		check("a", codes.Unavailable, "no processor")
	})
}

func BenchmarkProcessorsOf(b *testing.B) {
	p := withModels(map[string]served{"a": {client: listed{}}, "b": {client: listed{}}})
	for b.Loop() {
		if _, err := p.of("b"); err != nil {
			b.Fatal(err)
		}
	}
}
