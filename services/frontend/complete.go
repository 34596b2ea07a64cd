package frontend

import (
	"cmp"
	"math/rand/v2"
	"strconv"

	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	"github.com/switchyard-llm/switchyard/services/frontend/openai"
)

// complete fills in what a client may leave out, in a request of its own: the one that
// came may be the caller's.
func complete(in *generationv1.Request, a *answer) *generationv1.Request {
	if a.id == "" {
		a.id = in.GetRequestId()
	}
	if a.id == "" {
		a.id = newID(a.kind.idPrefix)
	}
	r := shallow(in)
	r.RequestId, r.DecodeWorker = a.id, cmp.Or(a.worker, in.GetDecodeWorker())
	r.Sampling = completeSampling(in.GetSampling())
	r.Choices, r.BestOf = openai.Choices(in), 0
	if candidates := openai.Candidates(in); candidates > r.Choices {
		r.BestOf = candidates
	}
	return r
}

func completeSampling(given *generationv1.Sampling) *generationv1.Sampling {
	s := &generationv1.Sampling{}
	if given != nil {
		s = &generationv1.Sampling{
			Temperature: given.Temperature, TopP: given.TopP, TopK: given.TopK, Seed: given.Seed, MinP: given.MinP,
			RepetitionPenalty: given.RepetitionPenalty, FrequencyPenalty: given.FrequencyPenalty,
			PresencePenalty: given.PresencePenalty, LogitBias: given.LogitBias,
		}
	}
	s.Temperature = orElse(s.Temperature, 1)
	s.TopP = orElse(s.TopP, 1)
	s.TopK = orElse(s.TopK, 0)
	if s.Seed == nil {
		s.Seed = ptr(rand.Uint64())
	}
	return s
}

func ptr[T any](v T) *T { return &v }

func orElse[T any](p *T, otherwise T) *T {
	if p != nil {
		return p
	}
	return &otherwise
}

// shallow copies a request; the copy shares what the request points to.
func shallow(in *generationv1.Request) *generationv1.Request {
	return &generationv1.Request{
		RequestId: in.RequestId, Model: in.Model, Input: in.Input, Sampling: in.Sampling, Limits: in.Limits,
		CacheSalt: in.CacheSalt, Stream: in.Stream, IncludeUsage: in.IncludeUsage, Session: in.Session, DecodeWorker: in.DecodeWorker,
		Choices: in.Choices, BestOf: in.BestOf, Echo: in.Echo, Logprobs: in.Logprobs, ReturnTokenIds: in.ReturnTokenIds,
		SpecialTokens: in.SpecialTokens, Priority: in.Priority,
	}
}

// partsOf is how many prompts a request has.
func partsOf(req *generationv1.Request) int { return max(1, len(req.GetPrompts().GetPrompts())) }

// partOf is what the processor is asked for one prompt of a complete request. Of which the
// best are to be kept, all candidates are asked for, and how likely they are.
func partOf(req *generationv1.Request, part int) *generationv1.Request {
	if req.GetPrompts() == nil && req.GetBestOf() == 0 {
		return req
	}
	r := shallow(req)
	if req.GetPrompts() != nil {
		openai.SetPrompt(r, req.GetPrompts().GetPrompts()[part])
	}
	if partsOf(req) > 1 {
		r.RequestId += "-" + strconv.Itoa(part)
	}
	if req.GetBestOf() > 0 {
		r.Choices, r.BestOf = req.GetBestOf(), 0
		r.Logprobs = orElse(req.Logprobs, 0)
	}
	return r
}
