package frontend_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	"github.com/switchyard-llm/switchyard/services/frontend"
)

// Ready follows the model that is served, health does not; both tell of the drain.
func TestProbes(t *testing.T) {
	held, release := make(chan struct{}), make(chan struct{})
	p := &processor{handler: func(in *generationv1.Request, out sender) error {
		close(held)
		<-release
		return echo(in, out)
	}}
	lis := listen(t)
	f, err := frontend.New(config(), frontend.Deps{Processor: connect(t, p), HTTP: lis})
	if err != nil {
		t.Fatal(err)
	}
	probes := httptest.NewServer(f.Handler()) // the frontend's own server takes no connections while it drains
	defer probes.Close()
	expect := func(when string, health, ready int) {
		t.Helper()
		for path, want := range map[string]int{"/health": health, "/ready": ready} {
			resp, body := do(t, http.MethodGet, probes.URL+path, "")
			state := map[int]string{200: `{"status":"ok"}`, 503: `{"status":"unavailable"}`}[want]
			if resp.StatusCode != want || body != state || resp.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s: %s is %d %s, want %d", when, path, resp.StatusCode, body, want)
			}
		}
	}
	expect("before Run", 503, 503)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ran := make(chan error, 1)
	go func() { ran <- f.Run(ctx) }()
	if err := f.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	expect("with a model", 200, 200)
	p.bare.Store(true)
	expect("without a model", 200, 503)
	p.bare.Store(false)
	answered := make(chan int)
	go func() {
		resp, _ := post(t, "http://"+lis.Addr().String()+"/v1/chat/completions", chatBody("x", ""))
		answered <- resp.StatusCode
	}()
	<-held
	cancel()
	for { // until the drain has begun, which the request holds up
		resp, _ := do(t, http.MethodGet, probes.URL+"/health", "")
		if resp.StatusCode != http.StatusOK {
			break
		}
	}
	expect("in the drain", 503, 503)
	close(release)
	if status := <-answered; status != http.StatusOK {
		t.Errorf("the request that held up the drain: %d", status)
	}
	if err := <-ran; err != nil {
		t.Error(err)
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

func TestVersion(t *testing.T) {
	url := serve(t, &processor{}, nil)
	resp, body := do(t, http.MethodGet, url+"/version", "")
	var v struct{ Version string }
	if err := json.Unmarshal([]byte(body), &v); err != nil || v.Version == "" || resp.StatusCode != http.StatusOK {
		t.Errorf("%d %s: %v", resp.StatusCode, body, err)
	}
}

func TestProbesTakeHEADAndNothingThatWrites(t *testing.T) {
	url := serve(t, &processor{}, func(_ *frontend.Config, d *frontend.Deps) {
		d.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("m 1\n")) })
	})
	for path, status := range map[string]int{"/health": 503, "/ready": 503, "/version": 200, "/metrics": 200} {
		if resp, body := do(t, http.MethodHead, url+path, ""); resp.StatusCode != status || body != "" {
			t.Errorf("HEAD %s: %d %q", path, resp.StatusCode, body)
		}
		resp, body := do(t, http.MethodDelete, url+path, "")
		if e := failureOf(t, body); resp.StatusCode != 405 || deref(e.Code) != "method_not_supported" || resp.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("DELETE %s: %d %v %s", path, resp.StatusCode, resp.Header, body)
		}
	}
	for _, path := range []string{"/tokenize", "/detokenize"} {
		if resp, _ := do(t, http.MethodGet, url+path, ""); resp.StatusCode != 405 || resp.Header.Get("Allow") != "POST" {
			t.Errorf("GET %s: %d %v", path, resp.StatusCode, resp.Header)
		}
	}
}
