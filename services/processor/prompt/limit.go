package prompt

import (
	"errors"
	"fmt"
	"slices"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/sampling"
	"github.com/switchyard-llm/switchyard/libs/sequence"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

const (
	// stopsMax and stopBytesMax bound what each byte of an answer is compared with.
	stopsMax     = 64
	stopBytesMax = 4096
	// stopTokensMax bounds what each token is compared with.
	stopTokensMax = 64
	// reasonContext is the reason of requests that do not fit into the context.
	reasonContext = "CONTEXT_LENGTH_EXCEEDED"
)

// limit is the most tokens that the answer to a prompt of so many tokens may have.
func (b *Builder) limit(l *generationv1.Limits, field string, promptTokens, contextTokens int) (int, error) {
	room := contextTokens - promptTokens
	if room < 1 {
		return 0, tooLong(field, fmt.Sprintf("This model's maximum context length is %d tokens. However, your prompt is too long: "+
			"it has %d tokens, and the answer needs at least one. Please reduce its length.", contextTokens, promptTokens))
	}
	if l == nil || l.MaxTokens == nil {
		return min(room, b.cfg.DefaultMaxTokens), nil
	}
	if want := l.GetMaxTokens(); uint64(want) > uint64(room) {
		return 0, tooLong("max_tokens", fmt.Sprintf("This model's maximum context length is %d tokens. However, you requested %d tokens "+
			"(%d in the prompt and %d for the answer). Please reduce the prompt, or max_tokens to at most %d.",
			contextTokens, promptTokens+int(want), promptTokens, want, room))
	}
	return int(l.GetMaxTokens()), nil
}

// ending checks what ends an answer before its limit, and gives the tokens that do.
func (b *Builder) ending(l *generationv1.Limits) ([]sequence.Token, error) {
	if err := checkStop(l.GetStop()); err != nil {
		return nil, err
	}
	if l != nil && l.MaxTokens != nil && l.GetMaxTokens() == 0 {
		return nil, rpc.InvalidArgument("max_tokens", "is 0, want at least 1")
	}
	own := l.GetStopTokenIds()
	if len(own) > stopTokensMax {
		return nil, rpc.InvalidArgument("stop_token_ids", fmt.Sprintf("has %d tokens, want at most %d", len(own), stopTokensMax))
	}
	if err := b.check("stop_token_ids", own); err != nil {
		return nil, err
	}
	switch {
	case l.GetIgnoreEos():
		return own, nil
	case len(own) == 0:
		return b.ends, nil
	}
	return slices.Concat(b.ends, own), nil
}

func checkStop(stop []string) error {
	if len(stop) > stopsMax {
		return rpc.InvalidArgument("stop", fmt.Sprintf("has %d texts, want at most %d", len(stop), stopsMax))
	}
	bytes := 0
	for i, s := range stop {
		if s == "" {
			return rpc.InvalidArgument("stop", fmt.Sprintf("text %d is empty, want at least one character", i))
		}
		bytes += len(s)
	}
	if bytes > stopBytesMax {
		return rpc.InvalidArgument("stop", fmt.Sprintf("has %d bytes in all, want at most %d", bytes, stopBytesMax))
	}
	return nil
}

// samplingError names the parameter in the way of the contract.
func samplingError(err error) error {
	var f *sampling.FieldError
	if errors.As(err, &f) {
		return rpc.InvalidArgument(f.Field, fmt.Sprintf("is %s, want %s", f.Value, f.Want))
	}
	return rpc.InvalidArgument("sampling", err.Error())
}

// tooLong is an INVALID_ARGUMENT with a reason beside the field: clients shorten the prompt on
// it. Some know it by its words alone, so that these begin as OpenAI's do.
func tooLong(field, message string) error {
	st := status.New(codes.InvalidArgument, message)
	detailed, err := st.WithDetails(&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
		{Field: field, Description: message, Reason: reasonContext},
	}})
	if err != nil {
		return st.Err() // only for a code of OK
	}
	return detailed.Err()
}
