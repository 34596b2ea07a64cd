package frontend_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/rpc/local"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	plannerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/planner/v1"
	processorv1 "github.com/switchyard-llm/switchyard/proto/switchyard/processor/v1"
	"github.com/switchyard-llm/switchyard/services/frontend"
)

// bubble runs a frontend on in-memory connections for the time of a test under virtual time.
func bubble(t *testing.T, p *processor, change func(*frontend.Config, *frontend.Deps), test func(*pipeListener)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		conn := local.New(local.Options{})
		processorv1.RegisterProcessorServer(conn, p)
		lis := newPipeListener()
		cfg, deps := config(), frontend.Deps{Processor: processorv1.NewProcessorClient(conn), HTTP: lis}
		if change != nil {
			change(&cfg, &deps)
		}
		f, err := frontend.New(cfg, deps)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- f.Run(ctx) }()
		if err := f.Ready(ctx); err != nil {
			t.Fatal(err)
		}
		test(lis)
		cancel()
		if err := <-ran; err != nil {
			t.Errorf("Run: %v", err)
		}
		conn.Close()
	})
}

func TestSilentStreamsGetKeepalives(t *testing.T) {
	p := &processor{handler: func(_ *generationv1.Request, out sender) error {
		time.Sleep(time.Minute) // virtual: nothing goes out before the first token
		if err := say(out, "x"); err != nil {
			return err
		}
		time.Sleep(40 * time.Second)
		return end(out, generationv1.FinishReason_FINISH_REASON_STOP, 1)
	}}
	bubble(t, p, nil, func(lis *pipeListener) {
		conn, r := lis.stream(t, chatBody("x", `,"stream":true`))
		defer conn.Close()
		start := time.Now()
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(start); waited < time.Minute {
			t.Errorf("the status came after %v, before the first token", waited)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(body), ": keepalive\n\n"); n < 2 || n > 5 {
			t.Errorf("%d keepalives in 40 s, want one at least every 15 s:\n%s", n, body)
		}
		if !strings.HasSuffix(string(body), "data: [DONE]\n\n") {
			t.Errorf("ended with %q", body)
		}
	})
}

// A client that does not read holds up its own generation, then loses it; what waits for it
// is bounded.
func TestAStuckClientIsBoundedAndEnded(t *testing.T) {
	var sent atomic.Int64
	var ended atomic.Bool
	p := &processor{handler: func(_ *generationv1.Request, out sender) error {
		defer ended.Store(true)
		for {
			if err := say(out, strings.Repeat("x", 1000)); err != nil {
				return err
			}
			sent.Add(1)
		}
	}}
	bubble(t, p, func(c *frontend.Config, _ *frontend.Deps) { c.WriteTimeout = 30 * time.Second }, func(lis *pipeListener) {
		conn, _ := lis.stream(t, chatBody("x", `,"stream":true`))
		defer conn.Close()
		synctest.Wait() // everybody is blocked: the client does not read
		if n := sent.Load(); n > 10 || ended.Load() {
			t.Errorf("%d chunks of 1 kB were taken for a stuck client (ended: %v), want what net/http buffers", n, ended.Load())
		}
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if !ended.Load() {
			t.Error("the generation goes on for a client that took nothing for longer than write_timeout")
		}
	})
}

// Neither the server's end nor that of the answer waits for a keepalive that a stuck client does not take.
func TestAStuckKeepaliveHoldsUpNothing(t *testing.T) {
	for _, drained := range []bool{true, false} {
		var since time.Time
		var took atomic.Int64
		p := &processor{handler: func(_ *generationv1.Request, out sender) error {
			if err := say(out, "x"); err != nil {
				return err
			}
			<-out.Context().Done()
			took.Store(int64(time.Since(since)))
			return out.Context().Err()
		}}
		change := func(c *frontend.Config, _ *frontend.Deps) {
			c.Keepalive, c.WriteTimeout, c.Drain, c.StreamIdle = time.Second, 30*time.Second, time.Second, 5*time.Second
			if drained {
				c.StreamIdle = 0
			}
		}
		bubble(t, p, change, func(lis *pipeListener) {
			since = time.Now()
			conn, r := lis.stream(t, chatBody("x", `,"stream":true`))
			for n := 0; n < 2; { // the role and the text; then it reads nothing
				line, err := r.ReadString('\n')
				if err != nil {
					t.Fatal(err)
				}
				n += strings.Count(line, "data: ")
			}
			if !drained {
				time.Sleep(7 * time.Second)
				_ = conn.Close() // else the drain would wait
				return
			}
			time.Sleep(4 * time.Second)
			since = time.Now()
		})
		if d := time.Duration(took.Load()); d < time.Second || d > 6*time.Second {
			t.Errorf("the generation ended after %v (drained: %v), want the drain of a second, or 5 s of silence and some grace", d, drained)
		}
	}
}

// Over HTTP/2 a write deadline that passes would end a stream in which nothing is being written.
func TestAQuietStreamOutlivesTheWriteTimeout(t *testing.T) {
	p := &processor{handler: func(_ *generationv1.Request, out sender) error {
		if err := say(out, "x"); err != nil {
			return err
		}
		time.Sleep(time.Minute)
		return end(out, generationv1.FinishReason_FINISH_REASON_STOP, 1)
	}}
	change := func(c *frontend.Config, _ *frontend.Deps) {
		c.WriteTimeout, c.Keepalive, c.StreamIdle = time.Second, time.Hour, 0
	}
	for _, http2 := range []bool{false, true} {
		bubble(t, p, change, func(lis *pipeListener) {
			transport := &http.Transport{Protocols: new(http.Protocols), DialContext: func(context.Context, string, string) (net.Conn, error) {
				client, server := net.Pipe()
				lis.conns <- server
				return client, nil
			}}
			transport.Protocols.SetHTTP1(!http2)
			transport.Protocols.SetUnencryptedHTTP2(http2)
			defer transport.CloseIdleConnections()
			client := &http.Client{Transport: transport}
			resp, err := client.Post("http://x/v1/chat/completions", "application/json", strings.NewReader(chatBody("x", `,"stream":true`)))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil || http2 != (resp.ProtoMajor == 2) || !strings.HasSuffix(string(body), "data: [DONE]\n\n") {
				t.Errorf("%s: %v, ended with %q", resp.Proto, err, body)
			}
		})
	}
}

// Tokens that the processor sends together go out together, still as one event each.
func TestABurstCostsFewWrites(t *testing.T) {
	p := &processor{handler: func(_ *generationv1.Request, out sender) error {
		burst := make([]*generationv1.Chunk, 50)
		for i := range burst {
			burst[i] = &generationv1.Chunk{Text: "x"}
		}
		if err := out.Send(&processorv1.GenerateResponse{Chunks: burst}); err != nil {
			return err
		}
		return end(out, generationv1.FinishReason_FINISH_REASON_STOP, 50)
	}}
	bubble(t, p, nil, func(lis *pipeListener) {
		conn, _ := lis.stream(t, chatBody("x", `,"stream":true`))
		defer conn.Close()
		synctest.Wait()
		var got []byte
		buf, reads := make([]byte, 1<<20), 0
		for !strings.HasSuffix(string(got), "0\r\n\r\n") {
			n, err := conn.Read(buf)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, buf[:n]...)
			reads++
		}
		if events := strings.Count(string(got), `"content":"x"`); events != 50 || reads > 10 {
			t.Errorf("%d events in %d writes, want 50 in a few", events, reads)
		}
	})
}

func TestTokensAreNotHeldBack(t *testing.T) {
	release := make(chan struct{})
	p := &processor{handler: func(_ *generationv1.Request, out sender) error {
		if err := say(out, "first"); err != nil {
			return err
		}
		<-release
		return end(out, generationv1.FinishReason_FINISH_REASON_STOP, 1)
	}}
	url := serve(t, p, nil)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/chat/completions", strings.NewReader(chatBody("x", `,"stream":true`)))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var got []byte
	buf := make([]byte, 4096)
	for !strings.Contains(string(got), `"content":"first"`) {
		n, err := resp.Body.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, buf[:n]...)
	}
	close(release)
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
}

// planner keeps the reports.
type planner struct {
	plannerv1.UnimplementedPlannerServer
	reports chan *plannerv1.ReportRequest
}

func (p *planner) Report(_ context.Context, r *plannerv1.ReportRequest) (*plannerv1.ReportResponse, error) {
	p.reports <- r
	return &plannerv1.ReportResponse{}, nil
}

func TestThePlannerHearsOfTheTraffic(t *testing.T) {
	p := &processor{handler: func(in *generationv1.Request, out sender) error {
		if in.GetChat().GetMessages()[0].GetContent() == "fail" {
			return rpc.Unavailable("gone")
		}
		time.Sleep(100 * time.Millisecond)
		for range 4 {
			if err := say(out, "x"); err != nil {
				return err
			}
			time.Sleep(10 * time.Millisecond)
		}
		return end(out, generationv1.FinishReason_FINISH_REASON_STOP, 5)
	}}
	watcher := &planner{reports: make(chan *plannerv1.ReportRequest, 100)}
	conn := local.New(local.Options{})
	plannerv1.RegisterPlannerServer(conn, watcher)
	bubble(t, p, func(_ *frontend.Config, d *frontend.Deps) {
		watcher.reports = make(chan *plannerv1.ReportRequest, 100)
		d.Planner, d.Instance = plannerv1.NewPlannerClient(conn), instance("frontend-7")
	}, func(lis *pipeListener) {
		for _, body := range []string{chatBody("x", ""), chatBody("x", `,"stream":true`), chatBody("fail", ""), chatBody("x", `,"n":0`)} {
			client, r := lis.stream(t, body)
			resp, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, resp.Body); err != nil {
				t.Fatal(err)
			}
			client.Close()
		}
		report := <-watcher.reports
		got := report.GetTraffic()
		if report.GetInstance().GetId() != "frontend-7" || got.GetInterval().AsDuration() != time.Second {
			t.Errorf("report %v", report)
		}
		// The refused one is no traffic.
		if got.GetRequests() != 3 || got.GetFailedRequests() != 1 || got.GetActiveRequests() != 0 ||
			got.GetMeanInputTokens() != 7 || got.GetMeanOutputTokens() != 5 ||
			got.GetMeanTimeToFirstToken().AsDuration() != 100*time.Millisecond || got.GetMeanInterTokenLatency().AsDuration() != 10*time.Millisecond {
			t.Errorf("report %v", got)
		}
		if next := (<-watcher.reports).GetTraffic(); next.GetRequests() != 0 || next.GetMeanOutputTokens() != 0 {
			t.Errorf("the next report %v, want it to begin anew", next)
		}
	})
}

func TestALostPlannerCostsNothing(t *testing.T) {
	conn := local.New(local.Options{})
	conn.Close() // every report is UNAVAILABLE
	bubble(t, &processor{}, func(_ *frontend.Config, d *frontend.Deps) {
		d.Planner, d.Instance = plannerv1.NewPlannerClient(conn), instance("frontend-7")
	}, func(lis *pipeListener) {
		time.Sleep(5 * time.Second)
		client, r := lis.stream(t, chatBody("x", ""))
		defer client.Close()
		if resp, err := http.ReadResponse(r, nil); err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%v, %v", resp, err)
		}
	})
}

// The drain lets a stream that runs come to its end, and says "not ready" meanwhile.
func TestDrainLetsRequestsFinish(t *testing.T) {
	release := make(chan struct{})
	p := &processor{handler: func(_ *generationv1.Request, out sender) error {
		if err := say(out, "x"); err != nil {
			return err
		}
		select {
		case <-release:
			return end(out, generationv1.FinishReason_FINISH_REASON_STOP, 1)
		case <-out.Context().Done():
			return out.Context().Err()
		}
	}}
	for _, finishes := range []bool{true, false} {
		if finishes {
			release = make(chan struct{})
			close(release)
		} else {
			release = nil
		}
		drain(t, p, finishes)
	}
}

func drain(t *testing.T, p *processor, finishes bool) {
	lis := listen(t)
	cfg := config()
	cfg.Drain = 50 * time.Millisecond
	f, err := frontend.New(cfg, frontend.Deps{Processor: connect(t, p), HTTP: lis})
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + lis.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ran := make(chan error, 1)
	go func() { ran <- f.Run(ctx) }()
	if err := f.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	if resp, body := do(t, http.MethodGet, url+"/health", ""); resp.StatusCode != http.StatusOK || body != `{"status":"ok"}` {
		t.Errorf("health %d %s", resp.StatusCode, body)
	}
	resp, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(chatBody("x", `,"stream":true`)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	cancel()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("the stream broke off: %v", err)
	}
	if done := strings.HasSuffix(string(body), "[DONE]\n\n"); done != finishes {
		t.Errorf("finishes %v: the stream ended with %s", finishes, body)
	}
	if !finishes && !strings.Contains(string(body), `"code":"service_unavailable"`) {
		t.Errorf("cut off without an error: %s", body)
	}
	if err := <-ran; err != nil {
		t.Errorf("Run: %v", err)
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}
