// Package clients tests a whole server, `switchyard serve` as its own process with the default model, by real client
// libraries: OpenAI's own of PyPI and npm, langchain-openai, litellm, and llm-comply, which has OpenAI's published schemas.
//
// The client programs lie beside this file; each function of one is a scenario and shows here as a subtest. clients.py installs
// what they need into the user's cache, once. See README.md for running one against any server. The test waits for the
// processes and the one goroutine that it starts.
package clients

import (
	"bufio"
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/switchyard-llm/switchyard/libs/modelstore"
	"github.com/switchyard-llm/switchyard/libs/modelstore/modeltest"
)

//go:embed *.py *.mjs requirements.txt package.json package-lock.json
var programs embed.FS

// programVariable names the switchyard program. A relative path is looked up in the working folder, then in Bazel's
// runfiles; without one, the go command builds it.
const programVariable = "SWITCHYARD_PROGRAM"

// programTimeout bounds a client program, and installTimeout what it needs.
const (
	programTimeout = 5 * time.Minute
	installTimeout = 15 * time.Minute
)

func TestClients(t *testing.T) {
	folder := t.TempDir()
	if err := os.CopyFS(folder, programs); err != nil {
		t.Fatal(err)
	}
	install(t, folder)
	server := serve(t)
	arguments := []string{"--base-url", server + "/v1", "--busy-url", busyOnce(t, server) + "/v1"}
	for _, name := range []string{"openai_client.py", "openai_client.mjs", "langchain_client.py", "litellm_client.py", "comply_client.py"} {
		t.Run(name, func(t *testing.T) {
			run(t, append([]string{filepath.Join(folder, "clients.py"), "run", name}, arguments...))
		})
	}
}

// install does by itself what each program would do, so that their time is their own.
func install(t *testing.T, folder string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), installTimeout)
	defer cancel()
	begin := time.Now()
	out, err := exec.CommandContext(ctx, "python3", filepath.Join(folder, "clients.py"), "install").CombinedOutput()
	if err != nil {
		t.Fatalf("the client libraries: %v after %v\n%s", err, time.Since(begin), out)
	}
	t.Logf("client libraries in %s after %v", bytes.TrimSpace(out), time.Since(begin).Round(time.Millisecond))
}

// result is a line of a client program: a scenario, or at the end how many there were.
type result struct {
	Name      string
	OK        bool
	Error     string
	Seconds   float64
	Scenarios *int
}

// run runs a client program and makes a subtest of each scenario.
func run(t *testing.T, arguments []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), programTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "python3", arguments...)
	var errors bytes.Buffer
	cmd.Stderr = &errors
	out, err := cmd.Output()
	seen, said, failed := 0, -1, false
	for line := range bytes.Lines(out) {
		var r result
		if err := json.Unmarshal(line, &r); err != nil {
			t.Errorf("%q is no line of a result: %v", line, err)
			continue
		}
		if r.Scenarios != nil {
			said = *r.Scenarios
			continue
		}
		seen++
		failed = failed || !r.OK
		t.Run(r.Name, func(t *testing.T) {
			t.Logf("%.2f s", r.Seconds)
			if !r.OK {
				t.Error(r.Error)
			}
		})
	}
	// Its status tells that scenarios failed, which those show by themselves.
	if seen == 0 || seen != said || (err != nil) != failed {
		t.Errorf("%d scenarios, and the program said %d: %v\n%s", seen, said, err, errors.String())
	}
}

// serve starts a server with the default model that ends with the test, and gives its URL.
func serve(t *testing.T) string {
	t.Helper()
	cmd := exec.Command(program(t), "serve", "--http", "127.0.0.1:0", "--data", t.TempDir(),
		"--model", modeltest.TestModel(t), "--served-name", modelstore.DefaultModel)
	var errors bytes.Buffer
	cmd.Stderr = &errors
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		force := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
		defer force.Stop()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server ended with %v", err)
		}
		t.Logf("the server's log: %s", errors.String())
	})
	force := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() })
	defer force.Stop()
	line, _ := bufio.NewReader(out).ReadString('\n')
	server, ok := strings.CutPrefix(line, "ready: ")
	if !ok {
		t.Fatalf("the server said %q instead of that it is ready: %s", line, errors.String())
	}
	return strings.Fields(server)[0]
}

// program is the path of the switchyard program.
func program(t *testing.T) string {
	t.Helper()
	if named := os.Getenv(programVariable); named != "" {
		for _, path := range []string{named, filepath.Join(os.Getenv("TEST_SRCDIR"), os.Getenv("TEST_WORKSPACE"), named)} {
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
				return path
			}
		}
		t.Fatalf("%s names %s, which is no file", programVariable, named)
	}
	path := filepath.Join(t.TempDir(), "switchyard")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, "github.com/switchyard-llm/switchyard/tools/switchyard").CombinedOutput(); err != nil {
		t.Fatalf("build the switchyard program: %v\n%s", err, out)
	}
	return path
}

// busyOnce is a server before the real one that refuses the first try of each request as a full frontend does: OpenAI's
// libraries number their tries.
func busyOnce(t *testing.T, server string) string {
	t.Helper()
	behind, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(behind)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if tries := r.Header.Get("X-Stainless-Retry-Count"); tries != "" && tries != "0" {
			proxy.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = w.Write([]byte(`{"error":{"message":"Too many requests. Try again later.","type":"rate_limit_error","param":null,"code":"rate_limit_exceeded"}}`))
	}))
	t.Cleanup(front.Close)
	return front.URL
}
