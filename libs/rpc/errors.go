package rpc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
)

// errorDomain is the domain of the reasons in google.rpc.ErrorInfo.
const errorDomain = "switchyard"

// Error is a failure as one service tells it to another. On the receiving side it is a
// gRPC status: read it with Code, Field, Reason, RetryAfter and Message, which work on both.
type Error struct {
	code       codes.Code
	message    string
	field      string
	reason     string
	retryAfter time.Duration
	cause      error // stays on this side
}

// InvalidArgument says that a field of the request, by its path in the message, is not
// what was expected. It crosses as a google.rpc.BadRequest.
func InvalidArgument(field, want string) error {
	return &Error{code: codes.InvalidArgument, message: field + ": " + want, field: field}
}

// NotFound says that there is no such thing: kind is what was looked for, such as model.
func NotFound(kind, name string) error {
	return &Error{code: codes.NotFound, message: fmt.Sprintf("%s %q not found", kind, name)}
}

// FailedPrecondition says that the call can never succeed as it stands, whoever retries
// it. The reason is for programs, such as STALE_INCARNATION; it crosses as a google.rpc.ErrorInfo.
func FailedPrecondition(reason, message string) error {
	return &Error{code: codes.FailedPrecondition, message: message, reason: reason}
}

// ResourceExhausted says that a bound is reached; retryAfter above 0 tells when it may be otherwise.
func ResourceExhausted(message string, retryAfter time.Duration) error {
	return &Error{code: codes.ResourceExhausted, message: message, retryAfter: retryAfter}
}

// Unavailable says that the call may succeed elsewhere or later.
func Unavailable(message string) error {
	return &Error{code: codes.Unavailable, message: message}
}

// Unimplemented says that this server does not serve the call.
func Unimplemented(message string) error {
	return &Error{code: codes.Unimplemented, message: message}
}

// Internal says that the server is at fault.
func Internal(err error) error {
	return &Error{code: codes.Internal, message: err.Error(), cause: err}
}

// Error is the message, without the code.
func (e *Error) Error() string { return e.message }

// Unwrap is what caused it, on the side where it was made.
func (e *Error) Unwrap() error { return e.cause }

// GRPCStatus is the error as it crosses.
func (e *Error) GRPCStatus() *status.Status {
	st := status.New(e.code, e.message)
	var details []protoadapt.MessageV1
	if e.field != "" {
		details = append(details, &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: e.field, Description: e.message},
		}})
	}
	if e.reason != "" {
		details = append(details, &errdetails.ErrorInfo{Reason: e.reason, Domain: errorDomain})
	}
	if e.retryAfter > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(e.retryAfter)})
	}
	if len(details) == 0 {
		return st
	}
	detailed, err := st.WithDetails(details...)
	if err != nil {
		return st // only a code of OK or an unmarshalable detail; neither is made here
	}
	return detailed
}

// toStatus maps whatever a handler returned. A wrapped *Error or status keeps its code and
// details and gets the message of the whole chain.
func toStatus(err error) *status.Status {
	if st, ok := status.FromError(err); ok {
		return st
	}
	switch {
	case errors.Is(err, context.Canceled):
		return status.New(codes.Canceled, err.Error())
	case errors.Is(err, context.DeadlineExceeded):
		return status.New(codes.DeadlineExceeded, err.Error())
	default:
		return status.New(codes.Internal, err.Error())
	}
}

// Code is the gRPC code of an error, from either side; OK for nil.
func Code(err error) codes.Code { return toStatus(err).Code() }

// Message is the error's message without gRPC's own prefix.
func Message(err error) string { return toStatus(err).Message() }

// Field is the field at fault, or empty.
func Field(err error) string {
	if d, ok := detail[*errdetails.BadRequest](err); ok && len(d.GetFieldViolations()) > 0 {
		return d.GetFieldViolations()[0].GetField()
	}
	return ""
}

// Reason is the reason for programs, or empty.
func Reason(err error) string {
	if d, ok := detail[*errdetails.ErrorInfo](err); ok && d.GetDomain() == errorDomain {
		return d.GetReason()
	}
	return ""
}

// RetryAfter is the time after which to try again, or 0.
func RetryAfter(err error) time.Duration {
	if d, ok := detail[*errdetails.RetryInfo](err); ok {
		return d.GetRetryDelay().AsDuration()
	}
	return 0
}

func detail[T any](err error) (T, bool) {
	for _, d := range toStatus(err).Details() {
		if t, ok := d.(T); ok {
			return t, true
		}
	}
	var none T
	return none, false
}
