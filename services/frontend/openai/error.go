package openai

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	frontendv1 "github.com/switchyard-llm/switchyard/proto/switchyard/frontend/v1"
)

// The error types that OpenAI clients know.
const (
	typeInvalidRequest = "invalid_request_error"
	typeRateLimit      = "rate_limit_error"
	typeServer         = "server_error"
)

// Error is a failure as an OpenAI client sees it. It crosses gRPC as a status with a
// frontend.v1.ErrorDetail.
type Error struct {
	// HTTPStatus is the status of an answer that has not begun.
	HTTPStatus int
	// Type is OpenAI's class, such as invalid_request_error.
	Type string
	// Code is for programs, such as model_not_found. Empty: null.
	Code string
	// Param is the parameter at fault, such as messages[0].role. Empty: null.
	Param string
	// Message is for people.
	Message string
	// RetryAfter is the time after which to try again. 0: not said.
	RetryAfter time.Duration
	// Cause is what the server knows beyond Message, for its log. It does not cross.
	Cause error

	grpc codes.Code
}

// Error is the message.
func (e *Error) Error() string { return e.Message }

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Cause }

// GRPCStatus is the error as gRPC callers get it.
func (e *Error) GRPCStatus() *status.Status {
	st := status.New(e.GRPCCode(), e.Message)
	detailed, err := st.WithDetails(&frontendv1.ErrorDetail{
		HttpStatus:        int32(e.HTTPStatus),
		Type:              e.Type,
		Param:             e.Param,
		Code:              e.Code,
		RetryAfterSeconds: int32(e.retryAfterSeconds()),
	})
	if err != nil {
		return st // only when the code is OK
	}
	return detailed
}

// GRPCCode is the code of GRPCStatus.
func (e *Error) GRPCCode() codes.Code {
	if e.grpc != codes.OK {
		return e.grpc
	}
	if code, ok := grpcCodes[e.HTTPStatus]; ok {
		return code
	}
	return codes.Internal
}

// grpcCodes holds the codes of the statuses that this package makes by itself.
var grpcCodes = map[int]codes.Code{
	http.StatusBadRequest:            codes.InvalidArgument,
	http.StatusRequestTimeout:        codes.DeadlineExceeded,
	http.StatusRequestEntityTooLarge: codes.InvalidArgument,
	http.StatusUnsupportedMediaType:  codes.InvalidArgument,
	http.StatusNotFound:              codes.NotFound,
	http.StatusGatewayTimeout:        codes.DeadlineExceeded,
	http.StatusNotImplemented:        codes.Unimplemented,
	http.StatusMethodNotAllowed:      codes.Unimplemented,
	http.StatusTooManyRequests:       codes.ResourceExhausted,
	http.StatusServiceUnavailable:    codes.Unavailable,
}

// RetryAfterHeader is the Retry-After header's value: whole seconds. Empty: none.
func (e *Error) RetryAfterHeader() string {
	if e.RetryAfter <= 0 {
		return ""
	}
	return strconv.FormatInt(e.retryAfterSeconds(), 10)
}

func (e *Error) retryAfterSeconds() int64 {
	return int64((e.RetryAfter + time.Second - 1) / time.Second)
}

// AppendJSON appends {"error":{…}}.
func (e *Error) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"error":{"message":`...)
	dst = appendQuoted(dst, e.Message)
	dst = append(dst, `,"type":`...)
	dst = appendQuoted(dst, e.Type)
	dst = append(dst, `,"param":`...)
	dst = appendQuotedOrNull(dst, e.Param)
	dst = append(dst, `,"code":`...)
	dst = appendQuotedOrNull(dst, e.Code)
	return append(dst, `}}`...)
}

// AppendEvent appends the error as an event of a stream that has begun. No [DONE] follows.
func (e *Error) AppendEvent(dst []byte) []byte {
	return append(e.AppendJSON(append(dst, "data: "...)), "\n\n"...)
}

// Refuse makes an invalid_request_error.
func Refuse(httpStatus int, code, param, format string, args ...any) *Error {
	return &Error{HTTPStatus: httpStatus, Type: typeInvalidRequest, Code: code, Param: param, Message: fmt.Sprintf(format, args...)}
}

// Overloaded is a 429.
func Overloaded(message string, retryAfter time.Duration) *Error {
	return &Error{HTTPStatus: http.StatusTooManyRequests, Type: typeRateLimit, Code: "rate_limit_exceeded", Message: message, RetryAfter: retryAfter}
}

// Unavailable is a 503.
func Unavailable(message string, retryAfter time.Duration) *Error {
	return &Error{HTTPStatus: http.StatusServiceUnavailable, Type: typeServer, Code: "service_unavailable", Message: message, RetryAfter: retryAfter}
}

// TimedOut is a 504.
func TimedOut(message string) *Error {
	return &Error{HTTPStatus: http.StatusGatewayTimeout, Type: typeServer, Code: "timeout", Message: message}
}

// NotImplemented is a 501.
func NotImplemented(message string) *Error {
	return &Error{HTTPStatus: http.StatusNotImplemented, Type: typeServer, Code: "not_implemented", Message: message}
}

// Broken is a 500 whose cause only the log tells.
func Broken(cause error) *Error {
	return &Error{
		HTTPStatus: http.StatusInternalServerError, Type: typeServer, Code: "internal_error",
		Message: "The server had an error while processing your request.", Cause: cause, grpc: codes.Internal,
	}
}

// bad is a 400.
func bad(code, param, format string, args ...any) *Error {
	return Refuse(http.StatusBadRequest, code, param, format, args...)
}

func missing(param string) *Error {
	return bad("missing_required_parameter", param, "Missing required parameter: '%s'.", param)
}

func mistyped(param, want, got string) *Error {
	return bad("invalid_type", param, "Invalid type for '%s': expected %s, but got %s instead.", param, want, got)
}
