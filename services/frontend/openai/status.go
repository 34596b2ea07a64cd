package openai

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	frontendv1 "github.com/switchyard-llm/switchyard/proto/switchyard/frontend/v1"
)

// StatusClientClosedRequest is what the log and the metrics say of a request whose client
// went away; nobody is left to receive it.
const StatusClientClosedRequest = 499

// defaultRetryAfter is said when whoever is overloaded did not say.
const defaultRetryAfter = time.Second

// ErrorOf is the OpenAI error for any error of a gRPC call: an Error as it is, an
// ErrorDetail read back, and else what code and google.rpc details say. err is not nil.
func ErrorOf(err error) *Error {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e
	}
	st, ok := status.FromError(err)
	if !ok && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		st = status.FromContextError(err)
	}
	d := detailsOf(st)
	if d.own != nil {
		return &Error{
			HTTPStatus: int(d.own.GetHttpStatus()), Type: d.own.GetType(), Code: d.own.GetCode(), Param: d.own.GetParam(),
			Message: st.Message(), RetryAfter: time.Duration(d.own.GetRetryAfterSeconds()) * time.Second, grpc: st.Code(),
		}
	}
	e := fromCode(st, d)
	e.grpc = st.Code()
	e.Cause = err
	if d.reason != "" {
		e.Code = strings.ToLower(d.reason)
	}
	return e
}

// details is what of a status' details matters here.
type details struct {
	own         *frontendv1.ErrorDetail
	field       string
	description string
	reason      string
	retryAfter  time.Duration
	any         bool
}

func detailsOf(st *status.Status) details {
	d := details{retryAfter: defaultRetryAfter}
	for _, detail := range st.Details() {
		switch detail := detail.(type) {
		case *frontendv1.ErrorDetail:
			d.own = detail
		case *errdetails.BadRequest:
			for _, v := range detail.GetFieldViolations() {
				d.any, d.field, d.description = true, v.GetField(), v.GetDescription()
				if v.GetReason() != "" {
					d.reason = v.GetReason()
				}
				break // OpenAI's error object has room for one
			}
		case *errdetails.ErrorInfo:
			d.any = true
			if d.reason == "" {
				d.reason = detail.GetReason()
			}
		case *errdetails.RetryInfo:
			d.any = true
			d.retryAfter = max(detail.GetRetryDelay().AsDuration(), time.Millisecond)
		}
	}
	return d
}

// fromCode maps a status without an ErrorDetail.
func fromCode(st *status.Status, d details) *Error {
	switch st.Code() {
	case codes.InvalidArgument, codes.OutOfRange, codes.FailedPrecondition:
		message := d.description
		if message == "" {
			message = st.Message()
		}
		code := ""
		if d.field != "" {
			code = "invalid_value"
		}
		return bad(code, d.field, "%s", message)
	case codes.NotFound:
		return Refuse(http.StatusNotFound, "model_not_found", "model", "%s", st.Message())
	case codes.ResourceExhausted:
		if messageTooLarge(st.Message()) {
			return Broken(st.Err())
		}
		return Overloaded(d.say(st, "The server is overloaded. Try again later."), d.retryAfter)
	case codes.Unavailable:
		return Unavailable(d.say(st, "The model cannot be served right now. Try again later."), d.retryAfter)
	case codes.DeadlineExceeded:
		return TimedOut("The request took longer than the server allows.")
	case codes.Canceled:
		return &Error{HTTPStatus: StatusClientClosedRequest, Type: typeInvalidRequest, Code: "request_cancelled", Message: "The request was cancelled."}
	case codes.Unimplemented:
		return NotImplemented(st.Message())
	default:
		e := Broken(st.Err())
		e.Message = d.say(st, e.Message)
		return e
	}
}

// say is the status' own message if somebody wrote it for callers, which a detail shows;
// gRPC's own messages name addresses and are kept from clients.
func (d *details) say(st *status.Status, otherwise string) string {
	if d.any && st.Message() != "" {
		return st.Message()
	}
	return otherwise
}

// messageTooLarge tells gRPC's own RESOURCE_EXHAUSTED, which is a wrong limit of ours and
// no overload.
func messageTooLarge(message string) bool {
	return strings.HasPrefix(message, "grpc: ") || strings.HasPrefix(message, "trying to send message larger than max")
}

// NoSuchModel is the 404 for a model that is not served.
func NoSuchModel(model string) *Error {
	return Refuse(http.StatusNotFound, "model_not_found", "model", "The model '%s' does not exist or is not served here.", model)
}
