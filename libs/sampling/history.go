package sampling

import (
	"math"

	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// History is what the bias and the penalties of one sequence look at: which tokens its prompt
// has, how often each was generated. It is a function of the parameters, the prompt and the
// generated tokens, so any worker that has those makes the same one. nil is that of a sequence
// without bias or penalty. It takes memory for each distinct token that they touch.
type History struct {
	repetition, frequency, presence float64
	entries                         []entry
	index                           map[sequence.Token]int32 // nil: no penalty, so the entries stay as they are
}

// entry is what changes the logit of one token. It is small, since there may be one for each
// token of a prompt.
type entry struct {
	token     sequence.Token
	generated uint32 // how often
	bias      float32
	seen      bool // in the prompt, or generated
}

// adjusts says whether the parameters look at single tokens at all.
func adjusts(p *sequence.Sampling) bool { return len(p.Bias) > 0 || penalizes(p) }

func penalizes(p *sequence.Sampling) bool {
	return repeats(p) || p.FrequencyPenalty != 0 || p.PresencePenalty != 0
}

func repeats(p *sequence.Sampling) bool { return p.RepetitionPenalty != 0 && p.RepetitionPenalty != 1 }

// NewHistory reads what there is of a sequence; nil if its parameters, which are valid, do
// not look at it.
func NewHistory(p *sequence.Sampling, prompt, generated []sequence.Token) *History {
	if !adjusts(p) {
		return nil
	}
	h := &History{repetition: 1, frequency: float64(p.FrequencyPenalty), presence: float64(p.PresencePenalty)}
	if repeats(p) {
		h.repetition = float64(p.RepetitionPenalty)
	}
	for _, b := range p.Bias {
		h.entries = append(h.entries, entry{token: b.Token, bias: b.Bias})
	}
	if !penalizes(p) {
		return h
	}
	h.index = make(map[sequence.Token]int32, len(h.entries))
	for i := range h.entries {
		h.index[h.entries[i].token] = int32(i)
	}
	if h.repetition != 1 { // the other penalties do not look at the prompt
		for _, t := range prompt {
			h.entry(t).seen = true
		}
	}
	for _, t := range generated {
		h.Add(t)
	}
	return h
}

// Add counts a token that was generated.
func (h *History) Add(t sequence.Token) {
	if h == nil || h.index == nil {
		return
	}
	e := h.entry(t)
	e.seen = true
	e.generated++
}

func (h *History) entry(t sequence.Token) *entry {
	i, ok := h.index[t]
	if !ok {
		i = int32(len(h.entries))
		h.index[t] = i
		h.entries = append(h.entries, entry{token: t})
	}
	return &h.entries[i]
}

// logit is what becomes of a token's logit. It is rounded once, at the end; a finite one stays
// finite, since a penalty near 0 must not make an infinite one of it.
func (h *History) logit(e *entry, given float32) float32 {
	x := float64(given) + float64(e.bias)
	if e.seen && x > 0 {
		x /= h.repetition
	} else if e.seen {
		x *= h.repetition
	}
	if e.generated > 0 {
		x -= float64(h.frequency*float64(e.generated)) + h.presence
	}
	if !math.IsInf(float64(given), 0) {
		x = min(max(x, -math.MaxFloat32), math.MaxFloat32)
	}
	return float32(x)
}

// changed is a logit as the model gave it.
type changed struct {
	token sequence.Token
	given float32
}

// adjust applies the history and takes the banned tokens' chance, in place; restore undoes it.
func (s *Sampler) adjust(logits []float32, at *Turn) error {
	s.changes = s.changes[:0]
	if at.History != nil {
		for i := range at.History.entries {
			e := &at.History.entries[i]
			if int(e.token) >= len(logits) {
				continue // it is never drawn anyway
			}
			given := logits[e.token]
			s.changes = append(s.changes, changed{e.token, given})
			logits[e.token] = at.History.logit(e, given)
		}
	}
	for _, t := range at.Banned {
		if int(t) < len(logits) { // else it is never drawn anyway
			s.changes = append(s.changes, changed{t, logits[t]})
			logits[t] = float32(math.Inf(-1))
		}
	}
	return nil
}

// restore goes backwards, since a token may have been changed twice.
func (s *Sampler) restore(logits []float32) {
	for i := len(s.changes) - 1; i >= 0; i-- {
		logits[s.changes[i].token] = s.changes[i].given
	}
}
