package run

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv("RUN_TEST_CHILD") == "1" {
		Main(func(ctx context.Context, args []string) error {
			fmt.Println("ready")
			<-ctx.Done()
			return errors.New("drained with " + strings.Join(args, ","))
		})
	}
	goleak.VerifyTestMain(m)
}

func TestASignalEndsTheContextAndTheErrorIsOneLine(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, "a", "b")
	cmd.Env = append(os.Environ(), "RUN_TEST_CHILD=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fscanln(stdout, new(string)); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	if cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("ended with %v, want exit code 1", err)
	}
	if got := stderr.String(); !strings.HasSuffix(got, ": drained with a,b\n") || strings.Count(got, "\n") != 1 {
		t.Errorf("standard error %q, want one line with the error", got)
	}
}

func TestHelpIsNoFailure(t *testing.T) {
	var stderr bytes.Buffer
	if code := exit(fmt.Errorf("parse: %w", flag.ErrHelp), "x", &stderr); code != 0 || stderr.Len() > 0 {
		t.Errorf("exit code %d, standard error %q; want 0 and nothing", code, &stderr)
	}
}

func TestTheFirstFailureEndsAllPartsAndNamesItsPart(t *testing.T) {
	g, _ := NewGroup(t.Context())
	broken := errors.New("broken")
	g.Go("patient", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	g.Go("late", func(ctx context.Context) error { <-ctx.Done(); return errors.New("also broken") })
	g.Go("done", func(context.Context) error { return nil })
	g.Go("faulty", func(context.Context) error { return broken })
	err := g.Wait()
	if !errors.Is(err, broken) || err.Error() != "faulty: broken" {
		t.Errorf("Wait = %v, want faulty: broken", err)
	}
}

func TestAnEndFromOutsideIsNoFailure(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	g, _ := NewGroup(ctx)
	started := make(chan struct{})
	g.Go("part", func(ctx context.Context) error {
		close(started)
		<-ctx.Done()
		return fmt.Errorf("read: %w", ctx.Err())
	})
	<-started
	cancel()
	if err := g.Wait(); err != nil {
		t.Errorf("Wait = %v, want nil", err)
	}
}

func TestACancelledCallInARunningGroupIsAFailure(t *testing.T) {
	g, _ := NewGroup(t.Context())
	g.Go("part", func(context.Context) error { return context.Canceled })
	if err := g.Wait(); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait = %v, want part: context canceled", err)
	}
}
