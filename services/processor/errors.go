package processor

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

// retryAfter is what clients are told to wait where nothing better is known.
const retryAfter = time.Second

// refused is an error that clients may see and should try again after: it carries a reason
// for programs beside the time.
func refused(code codes.Code, reason, format string, args ...any) error {
	return explained(status.Newf(code, format, args...), reason, &errdetails.RetryInfo{RetryDelay: durationpb.New(retryAfter)})
}

// explained adds a reason for programs, and more, to a status that is no OK.
func explained(st *status.Status, reason string, more ...protoadapt.MessageV1) error {
	detailed, err := st.WithDetails(append(more, &errdetails.ErrorInfo{Reason: reason, Domain: "switchyard"})...)
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

// errCrashedWorkers is not for a retry: it would cost two more workers.
func errCrashedWorkers(deaths []*generationv1.WorkerDeath) error {
	var names []string
	for _, d := range deaths {
		names = append(names, d.GetWorker())
	}
	st := status.Newf(codes.Internal, "the workers that computed the request died one after the other (%s); it was ended so that no other does",
		strings.Join(names, ", then "))
	return explained(st, "REQUEST_CRASHED_WORKER")
}

// workerError is how a worker ended a sequence that it did not finish.
type workerError struct {
	worker  string
	code    codes.Code
	message string
	// The prefill worker that died with the sequence, and its life; empty: none did.
	crashed, incarnation string
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
