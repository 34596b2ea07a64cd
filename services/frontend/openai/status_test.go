package openai

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
)

func with(code codes.Code, message string, details ...protoadapt.MessageV1) error {
	st, err := status.New(code, message).WithDetails(details...)
	if err != nil {
		panic(err)
	}
	return st.Err()
}

func violation(field, description, reason string) protoadapt.MessageV1 {
	return &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: field, Description: description, Reason: reason}}}
}

func TestStatusesBecomeOpenAIErrors(t *testing.T) {
	const generic = "The server had an error while processing your request."
	for _, c := range []struct {
		err  error
		want Error
	}{
		{with(codes.InvalidArgument, "x", violation("messages", "too long", "CONTEXT_LENGTH_EXCEEDED")),
			Error{HTTPStatus: 400, Type: typeInvalidRequest, Param: "messages", Code: "context_length_exceeded", Message: "too long"}},
		{with(codes.InvalidArgument, "prompt: too long", violation("prompt", "", ""), &errdetails.ErrorInfo{Reason: "CONTEXT_LENGTH_EXCEEDED"}),
			Error{HTTPStatus: 400, Type: typeInvalidRequest, Param: "prompt", Code: "context_length_exceeded", Message: "prompt: too long"}},
		{with(codes.OutOfRange, "x"), Error{HTTPStatus: 400, Type: typeInvalidRequest, Message: "x"}},
		{with(codes.NotFound, "no m"), Error{HTTPStatus: 404, Type: typeInvalidRequest, Param: "model", Code: "model_not_found", Message: "no m"}},
		{with(codes.ResourceExhausted, "queues are full", &errdetails.RetryInfo{RetryDelay: durationpb.New(2500 * time.Millisecond)}),
			Error{HTTPStatus: 429, Type: typeRateLimit, Code: "rate_limit_exceeded", Message: "queues are full", RetryAfter: 2500 * time.Millisecond}},
		{with(codes.ResourceExhausted, "grpc: received message larger than max (9 vs. 4)"), Error{HTTPStatus: 500, Type: typeServer, Code: "internal_error", Message: generic}},
		{with(codes.Unavailable, "dial tcp 10.0.0.7:1: refused"),
			Error{HTTPStatus: 503, Type: typeServer, Code: "service_unavailable", Message: "The model cannot be served right now. Try again later.", RetryAfter: time.Second}},
		{with(codes.DeadlineExceeded, "x"), Error{HTTPStatus: 504, Type: typeServer, Code: "timeout", Message: "The request took longer than the server allows."}},
		{fmt.Errorf("wait: %w", context.DeadlineExceeded), Error{HTTPStatus: 504, Type: typeServer, Code: "timeout", Message: "The request took longer than the server allows."}},
		{with(codes.Canceled, "x"), Error{HTTPStatus: 499, Type: typeInvalidRequest, Code: "request_cancelled", Message: "The request was cancelled."}},
		{with(codes.Unimplemented, "x"), Error{HTTPStatus: 501, Type: typeServer, Code: "not_implemented", Message: "x"}},
		{with(codes.Internal, "secret"), Error{HTTPStatus: 500, Type: typeServer, Code: "internal_error", Message: generic}},
		{with(codes.Internal, "the request crashed a worker", &errdetails.ErrorInfo{Reason: "REQUEST_CRASHED_WORKER"}),
			Error{HTTPStatus: 500, Type: typeServer, Code: "request_crashed_worker", Message: "the request crashed a worker"}},
		{errors.New("secret"), Error{HTTPStatus: 500, Type: typeServer, Code: "internal_error", Message: generic}},
	} {
		got := *ErrorOf(c.err)
		if got.Cause == nil {
			t.Errorf("%v lost its cause", c.err)
		}
		if want := status.Code(c.err); want != codes.Unknown && got.GRPCCode() != want {
			t.Errorf("%v: code %v", c.err, got.GRPCCode())
		}
		got.Cause, got.grpc = nil, 0
		if got != c.want {
			t.Errorf("%v:\n got %+v\nwant %+v", c.err, got, c.want)
		}
	}
}

// An error that crosses gRPC comes back as it was.
func TestErrorsSurviveTheRPC(t *testing.T) {
	for _, e := range []*Error{
		missing("messages"), Overloaded("full", 3*time.Second), NoSuchModel("m"), Broken(nil), Unavailable("x", time.Second),
		Refuse(413, "request_too_large", "", "big"),
	} {
		got := *ErrorOf(e.GRPCStatus().Err())
		got.grpc = e.grpc
		if got != *e {
			t.Errorf("sent %+v\n got %+v", *e, got)
		}
		if again := ErrorOf(fmt.Errorf("wrapped: %w", e)); again != e {
			t.Errorf("a wrapped error became %+v", again)
		}
	}
}

func TestErrorJSON(t *testing.T) {
	got := string(bad("invalid_type", "n", "a %q", "b").AppendEvent(nil))
	want := `data: {"error":{"message":"a \"b\"","type":"invalid_request_error","param":"n","code":"invalid_type"}}` + "\n\n"
	if got != want {
		t.Errorf("got %s want %s", got, want)
	}
	got = string((&Error{Type: "t", Message: "m"}).AppendJSON(nil))
	if want := `{"error":{"message":"m","type":"t","param":null,"code":null}}`; got != want {
		t.Errorf("got %s want %s", got, want)
	}
	if got := Overloaded("", 1200*time.Millisecond).RetryAfterHeader(); got != "2" {
		t.Errorf("Retry-After %q, want whole seconds, rounded up", got)
	}
}
