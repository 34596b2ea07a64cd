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
	// MinTokens is how many are generated, Generated included, before a stop token may be drawn.
	MinTokens int
	// StopTokens end the sequence when drawn: the model's end-of-generation tokens, and
	// those of the request.
	StopTokens []Token
	// Salt separates the prefix caches of tenants; empty for the shared one.
	Salt string
	// Sampling says how the next token is drawn.
	Sampling Sampling
	// LogProbs asks for the log-probability of each token, and TopLogProbs for those of so
	// many of the likeliest tokens at its place.
	LogProbs    bool
	TopLogProbs int
	// Priority orders who waits for the same worker: lower ones first.
	Priority int
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
	// MinP drops the tokens whose probability is below this share of the likeliest one's; 0
	// keeps all.
	MinP float32
	// RepetitionPenalty divides the positive logits of tokens that are in the prompt or
	// were generated, and multiplies the negative ones; 0 and 1 change nothing.
	RepetitionPenalty float32
	// FrequencyPenalty is taken from the logit of a token for each time it was generated,
	// PresencePenalty once.
	FrequencyPenalty, PresencePenalty float32
	// Bias is added to the logits of single tokens, of which each stands here once.
	Bias []Bias
	// Seed keys the random draws together with the choice and the position.
	Seed uint64
}

// Bias is what is added to the logit of a token.
type Bias struct {
	Token Token
	Bias  float32
}

// LogProbs tells how likely a token was under the logits as the model gave them: natural
// logarithms.
type LogProbs struct {
	// LogProb is the token's own.
	LogProb float32
	// Top are the likeliest tokens at its place, falling; equal ones by rising id.
	Top []TokenLogProb
}

// TokenLogProb is a token and the logarithm of its probability.
type TokenLogProb struct {
	Token   Token
	LogProb float32
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
