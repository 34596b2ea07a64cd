package prompt

import (
	"errors"
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/sampling"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

const (
	// stopsMax and stopBytesMax bound what each byte of an answer is compared with.
	stopsMax     = 64
	stopBytesMax = 4096
	// reasonContext is the reason of requests that do not fit into the context.
	reasonContext = "CONTEXT_LENGTH_EXCEEDED"
)

// limit is the most tokens that the answer to a prompt of so many tokens may have.
func (b *Builder) limit(l *generationv1.Limits, field string, promptTokens, contextTokens int) (int, error) {
	room := contextTokens - promptTokens
	if room < 1 {
		return 0, tooLong(field, fmt.Sprintf("the prompt has %d tokens, want at most %d: the context is %d tokens and the answer needs one",
			promptTokens, contextTokens-1, contextTokens))
	}
	if l == nil || l.MaxTokens == nil {
		return min(room, b.cfg.DefaultMaxTokens), nil
	}
	if want := l.GetMaxTokens(); uint64(want) > uint64(room) {
		return 0, tooLong("max_tokens", fmt.Sprintf("is %d, want at most %d: the context is %d tokens and the prompt has %d",
			want, room, contextTokens, promptTokens))
	}
	return int(l.GetMaxTokens()), nil
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

// tooLong is an INVALID_ARGUMENT with a reason beside the field: clients shorten the prompt on it.
func tooLong(field, want string) error {
	st := status.New(codes.InvalidArgument, field+": "+want)
	detailed, err := st.WithDetails(&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
		{Field: field, Description: field + ": " + want, Reason: reasonContext},
	}})
	if err != nil {
		return st.Err() // only for a code of OK
	}
	return detailed.Err()
}
