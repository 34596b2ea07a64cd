// Package run starts and ends a process: signals become the end of a context, errors
// become one line and an exit code, and the parts of a service end together.
//
// It knows nothing of what runs. Main owns no goroutine after f returned; a Group waits
// for all it started.
package run

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

// Main runs f with the arguments of the process (without its name) and ends the process:
// with 0 when f returned nil or flag.ErrHelp, else with 1 and one line on standard
// error. SIGINT and SIGTERM end f's context; a second one ends the process at once.
func Main(f func(ctx context.Context, args []string) error) {
	CollectLess()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// Once the first signal is taken, the default handling returns.
	context.AfterFunc(ctx, stop)
	err := f(ctx, os.Args[1:])
	stop()
	os.Exit(exit(err, filepath.Base(os.Args[0]), os.Stderr))
}

// exit tells the error, if it is one, and returns the exit code.
func exit(err error, name string, stderr io.Writer) int {
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	fmt.Fprintf(stderr, "%s: %v\n", name, err)
	return 1
}
