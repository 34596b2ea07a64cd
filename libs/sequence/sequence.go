// Package sequence is the vocabulary of one generation in progress: its tokens,
// its limits and how its next token is drawn. It holds plain values and does no I/O;
// the scheduler owns the running state.
package sequence

// Token is one entry of a model's vocabulary, as it travels on the wire.
type Token = uint32

// Spec is all that an engine needs to know of one sequence. Every place that
// computes it — local, remote, after a migration — starts from the same Spec.
type Spec struct {
	// RequestID names the client's request in logs and traces.
	RequestID string
	// Choice is the index of this sequence among the choices of its request.
	Choice int
	// Prompt is what the client sent, as tokens; at least one.
	Prompt []Token
	// Generated holds tokens that an earlier worker already produced for this
	// sequence. Limits count from the border between the two fields.
	Generated []Token
	// MaxTokens bounds the generated tokens, Generated included; at least one.
	MaxTokens int
	// StopTokens end the sequence when drawn: the model's end-of-generation tokens.
	StopTokens []Token
	// Salt separates the prefix caches of tenants; empty for the shared one.
	Salt string
	// Sampling says how the next token is drawn.
	Sampling Sampling
}

// Len is the number of tokens that exist already.
func (s *Spec) Len() int { return len(s.Prompt) + len(s.Generated) }

// Sampling holds the parameters of a draw. The zero value is greedy.
type Sampling struct {
	// Temperature divides the logits; 0 takes the most likely token.
	Temperature float32
	// TopP keeps the smallest set of tokens whose probabilities sum to at least
	// TopP; 0 and 1 keep all.
	TopP float32
	// TopK keeps the K most likely tokens; 0 keeps all.
	TopK int
	// Seed keys the random draws together with the choice and the position.
	Seed uint64
}

// Finish says why a sequence ended.
type Finish uint8

const (
	// Unfinished is the state of a sequence that still runs.
	Unfinished Finish = iota
	// FinishStop: a stop token was drawn.
	FinishStop
	// FinishLength: MaxTokens, or the end of the context, was reached.
	FinishLength
	// FinishCancelled: whoever asked for the sequence no longer wants it.
	FinishCancelled
	// FinishError: the engine could not go on.
	FinishError
)

var finishNames = [...]string{"unfinished", "stop", "length", "cancelled", "error"}

func (f Finish) String() string {
	if int(f) < len(finishNames) {
		return finishNames[f]
	}
	return "unknown"
}
