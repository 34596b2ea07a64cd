//go:build cgo && linux

package capi_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/capi"
	"github.com/switchyard-llm/switchyard/libs/nixl/memory"
)

const patience = 20 * time.Second

// envTarget makes the test binary serve as a target until its standard input ends.
const envTarget = "SWITCHYARD_CAPI_TEST_TARGET"

var large = nixl.RegionInfo{Layout: block.Layout{BlockTokens: 1, Layers: 1, KVHeads: 1, HeadDim: 1 << 20, ElemBytes: 1}, Blocks: 16}

// node is an agent with one region, that soon finds its peers silent.
type node struct {
	nixl.Agent
	close func() error
}

func newNode(name string) (*node, error) {
	a, err := capi.New(capi.Config{
		Config: nixl.Config{Name: name, Incarnation: "1", KVFormat: "f"}, Alive: 20 * time.Millisecond, Silence: 200 * time.Millisecond,
	})
	if err != nil {
		return nil, err
	}
	m, err := memory.Anonymous(large.Bytes())
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	r, err := a.Register(m, large.Layout, large.Blocks)
	if err != nil {
		return nil, errors.Join(err, a.Close(), m.Close())
	}
	ran := make(chan error, 1)
	go func() { ran <- a.Run(context.Background()) }()
	return &node{a, func() error { return errors.Join(a.Close(), <-ran, r.Close(), m.Close()) }}, nil
}

// serveTarget prints its metadata in one line.
func serveTarget() error {
	n, err := newNode("decode")
	if err != nil {
		return err
	}
	metadata, err := n.Metadata()
	if err == nil {
		_, err = fmt.Printf("%s\n", metadata)
	}
	if err == nil {
		_, err = io.Copy(io.Discard, os.Stdin)
	}
	return errors.Join(err, n.close())
}

// startTarget runs the test binary again, and returns its process and metadata.
func startTarget(t *testing.T) (*os.Process, []byte) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envTarget+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Process.Kill() // it may have ended already
		_ = cmd.Wait()
	})
	line := make([]byte, 0, 64<<10)
	for len(line) == 0 || line[len(line)-1] != '\n' {
		n, err := out.Read(line[len(line):cap(line)])
		if err != nil {
			t.Fatalf("the target's metadata: %v", err)
		}
		line = line[:len(line)+n]
	}
	return cmd.Process, line
}

func lasting(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func TestFrozenPeerIsGoneAndItsTransfersAreUnsettled(t *testing.T) {
	useLibrary(t)
	writer, err := newNode("prefill")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := writer.close(); err != nil {
			t.Error(err)
		}
	})
	process, metadata := startTarget(t)
	id, err := writer.AddPeer(lasting(t), metadata)
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := unix.Waitid(unix.P_PID, process.Pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	whole := block.Span{Bytes: large.Bytes()}
	transfer, err := nixl.Post(lasting(t), writer, nixl.Request{Peer: id, Copies: []nixl.Copy{{Local: whole, Remote: whole}}})
	if err != nil {
		t.Fatal(err)
	}
	// No end comes, and no deadline of the caller's is needed to learn it.
	if err := transfer.Wait(lasting(t)); !errors.Is(err, nixl.ErrUnsettled) || !errors.Is(err, nixl.ErrGone) {
		t.Fatalf("wait for what cannot end: %v", err)
	}
	if err := transfer.Status(); !errors.Is(err, nixl.ErrUnsettled) {
		t.Fatalf("its status is %v", err)
	}
	if err := transfer.Release(); !errors.Is(err, nixl.ErrInProgress) {
		t.Fatalf("its release: %v", err)
	}
	e, err := writer.Receive(lasting(t))
	if err != nil || !e.Gone || e.Peer != id || !errors.Is(e.Err, nixl.ErrGone) {
		t.Fatalf("got %+v, %v, want the target to be gone", e, err)
	}
	if err := process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for ctx := lasting(t); errors.Is(transfer.Status(), nixl.ErrUnsettled); runtime.Gosched() {
		if ctx.Err() != nil {
			t.Fatal("the transfer never ended")
		}
	}
	if err := errors.Join(transfer.Wait(lasting(t)), transfer.Release()); err != nil {
		t.Fatalf("after it went on: %v", err)
	}
	if again, err := writer.AddPeer(lasting(t), metadata); err != nil || again != id {
		t.Fatalf("it came back as %s, %v", again, err)
	}
}
