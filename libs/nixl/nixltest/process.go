package nixltest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"os"
	"os/exec"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/nixl"
)

// envChild makes a test binary serve as a peer; its value is a childConfig.
const envChild = "SWITCHYARD_NIXLTEST_CHILD"

type childConfig struct{ Name, Incarnation, Folder string }

// Child serves as a peer if this process was started as one, and tells whether it
// did. A transport's TestMain calls it first and, if it did, exits.
func Child(tr Transport) (served bool) {
	text := os.Getenv(envChild)
	if text == "" {
		return false
	}
	if err := serveChild(tr, text); err != nil {
		fmt.Fprintln(os.Stderr, "nixltest child:", err)
	}
	return true
}

func serveChild(tr Transport, text string) error {
	var c childConfig
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	h, err := tr.open(nixl.Config{Name: c.Name, Incarnation: c.Incarnation, KVFormat: format}, c.Folder, Layout)
	if err != nil {
		return err
	}
	server := rpc.NewServer()
	if err := server.RegisterName("Peer", &service{h}); err != nil {
		return errors.Join(err, h.close())
	}
	server.ServeConn(pipe{os.Stdin, os.Stdout}) // until the parent closes it
	return h.close()
}

type service struct{ host *host }

// Do carries out one command.
func (s *service) Do(c Command, r *Result) error {
	*r = s.host.do(c)
	return nil
}

type pipe struct {
	io.ReadCloser
	io.WriteCloser
}

func (p pipe) Close() error { return errors.Join(p.ReadCloser.Close(), p.WriteCloser.Close()) }

// child is a peer in a process of its own.
type child struct {
	peer
	process *os.Process
	wait    func() error
	folder  string
}

// startChild runs the test binary again. The process ends with the test.
func startChild(t *testing.T, name, incarnation, folder string) *child {
	t.Helper()
	text, err := json.Marshal(childConfig{name, incarnation, folder})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envChild+"="+string(text))
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
	client := rpc.NewClient(pipe{out, in})
	c := &child{process: cmd.Process, wait: cmd.Wait, folder: folder}
	c.peer = peer{t: t, id: nixl.PeerID{Name: name, Incarnation: incarnation}}
	c.do = func(command Command) (r Result) {
		if err := client.Call("Peer.Do", command, &r); err != nil {
			r.Error = err.Error()
		}
		return r
	}
	t.Cleanup(func() {
		client.Close()
		_ = cmd.Process.Kill() // it may have ended already
		_ = cmd.Wait()
	})
	c.metadata() // it is up
	return c
}
