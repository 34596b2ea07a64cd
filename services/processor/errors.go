package processor

import (
	"fmt"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// retryAfter is what clients are told to wait where nothing better is known.
const retryAfter = time.Second

// refused is an error that clients may see and should try again after: it carries a reason
// for programs beside the time.
func refused(code codes.Code, reason, format string, args ...any) error {
	st := status.Newf(code, format, args...)
	detailed, err := st.WithDetails(
		&errdetails.ErrorInfo{Reason: reason, Domain: "switchyard"},
		&errdetails.RetryInfo{RetryDelay: durationpb.New(retryAfter)},
	)
	if err != nil {
		return st.Err() // only for a code of OK
	}
	return detailed.Err()
}

func errNoWorker(model string) error {
	return refused(codes.Unavailable, "NO_WORKER", "no decode worker serves the model %q at present", model)
}

func errFull(requests int) error {
	return refused(codes.ResourceExhausted, "TOO_MANY_REQUESTS", "%d requests are in work, which is the most that this processor takes", requests)
}

func errMigrations(attempts int, last error) error {
	return refused(codes.Unavailable, "WORKERS_LOST", "%d decode workers in turn did not finish the request: %v", attempts, last)
}

// workerError is how a worker ended a sequence that it did not finish.
type workerError struct {
	worker  string
	code    codes.Code
	message string
}

func (e *workerError) Error() string {
	return fmt.Sprintf("decode worker %s: %s: %s", e.worker, e.code, e.message)
}

// GRPCStatus keeps the worker's code.
func (e *workerError) GRPCStatus() *status.Status { return status.New(e.code, e.Error()) }

// refusal is what the client is told when no other worker takes the sequence.
func (e *workerError) refusal() error {
	if e.code == codes.ResourceExhausted {
		return refused(codes.ResourceExhausted, "WORKERS_FULL", "%v", e)
	}
	return refused(codes.Unavailable, "WORKER_REFUSED", "%v", e)
}

// refused says that the worker would not take the sequence: it is full, or leaving.
func (e *workerError) refused() bool {
	return e.code == codes.Unavailable || e.code == codes.ResourceExhausted
}

// gaveUp says that the worker ended the sequence unasked, through no fault of the sequence.
func (e *workerError) gaveUp() bool { return e.code == codes.Canceled || e.code == codes.Aborted }
