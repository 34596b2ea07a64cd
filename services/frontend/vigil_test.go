package frontend_test

import (
	"bufio"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	"github.com/switchyard-llm/switchyard/services/frontend"
)

// ask sends a chat request, reads the answer, and tells how long it took.
func (l *pipeListener) ask(t *testing.T, body string) (status int, answer string, took time.Duration) {
	t.Helper()
	conn := l.post(t, "/v1/chat/completions", body)
	defer conn.Close()
	return conn.answer(t)
}

// A worker that freezes in mid-stream does not hang its clients, nor go on for them.
func TestAStalledStreamEndsWithAnError(t *testing.T) {
	var cancelled atomic.Int32
	p := &processor{handler: func(_ *generationv1.Request, out sender) error {
		for range 3 {
			if err := say(out, "x"); err != nil {
				return err
			}
			time.Sleep(50 * time.Second) // slow, but not silent
		}
		if err := say(out, "last"); err != nil {
			return err
		}
		<-out.Context().Done()
		cancelled.Add(1)
		return out.Context().Err()
	}}
	bubble(t, p, nil, func(lis *pipeListener) { // on by default
		status, body, took := lis.ask(t, chatBody("x", `,"stream":true`))
		events := strings.Split(strings.TrimSuffix(body, "\n\n"), "\n\n")
		e := failureOf(t, strings.TrimPrefix(events[len(events)-1], "data: "))
		if status != http.StatusOK || deref(e.Code) != "timeout" || e.Type != "server_error" || strings.Contains(body, "[DONE]") || !strings.Contains(body, `"last"`) {
			t.Errorf("%d %s", status, body)
		}
		if took != 211*time.Second {
			t.Errorf("it took %v, want a minute after the last token, and a second of grace", took)
		}
		status, body, took = lis.ask(t, chatBody("x", ``))
		if e := failureOf(t, body); status != http.StatusGatewayTimeout || deref(e.Code) != "timeout" || took != 211*time.Second {
			t.Errorf("not streamed: %d %s after %v", status, body, took)
		}
		synctest.Wait()
		if n := cancelled.Load(); n != 2 {
			t.Errorf("%d of 2 generations were cancelled", n)
		}
	})
}

// A request may wait for its first token: by default as long as it may take in all.
func TestTheFirstTokenHasADeadlineOfItsOwn(t *testing.T) {
	p := &processor{handler: func(in *generationv1.Request, out sender) error {
		select {
		case <-time.After(5 * time.Minute):
			return echo(in, out)
		case <-out.Context().Done():
			return out.Context().Err()
		}
	}}
	for _, c := range []struct {
		timeout time.Duration
		status  int
		took    time.Duration
	}{
		{0, http.StatusOK, 5 * time.Minute},
		{6 * time.Minute, http.StatusOK, 5 * time.Minute},
		{2 * time.Minute, http.StatusGatewayTimeout, 2 * time.Minute},
	} {
		for _, more := range []string{``, `,"stream":true`} {
			change := func(cfg *frontend.Config, _ *frontend.Deps) { cfg.FirstToken = c.timeout }
			bubble(t, p, change, func(lis *pipeListener) {
				status, body, took := lis.ask(t, chatBody("x", more))
				if status != c.status || took != c.took {
					t.Errorf("%v%s: %d after %v, want %d after %v", c.timeout, more, status, took, c.status, c.took)
				}
				if c.status != http.StatusOK {
					if e := failureOf(t, body); deref(e.Code) != "timeout" {
						t.Errorf("%v%s: %s", c.timeout, more, body)
					}
				}
			})
		}
	}
}

func TestAStallCanBeAllowed(t *testing.T) {
	p := &processor{handler: func(_ *generationv1.Request, out sender) error {
		if err := say(out, "x"); err != nil {
			return err
		}
		time.Sleep(9 * time.Minute)
		return end(out, generationv1.FinishReason_FINISH_REASON_STOP, 1)
	}}
	bubble(t, p, func(c *frontend.Config, _ *frontend.Deps) { c.StreamIdle = 0 }, func(lis *pipeListener) {
		if status, body, _ := lis.ask(t, chatBody("x", `,"stream":true`)); status != http.StatusOK || !strings.HasSuffix(body, "data: [DONE]\n\n") {
			t.Errorf("%d %s", status, body)
		}
	})
}

// A client that reads slowly is not taken for a model that is silent.
func TestASlowClientIsNoSilence(t *testing.T) {
	p := &processor{handler: func(_ *generationv1.Request, out sender) error {
		for range 50 {
			if err := say(out, strings.Repeat("x", 2000)); err != nil {
				return err
			}
		}
		return end(out, generationv1.FinishReason_FINISH_REASON_STOP, 50)
	}}
	for _, more := range []string{`,"stream":true`, ``} {
		bubble(t, p, func(c *frontend.Config, _ *frontend.Deps) { c.StreamIdle = 5 * time.Second }, func(lis *pipeListener) {
			conn := lis.post(t, "/v1/chat/completions", chatBody("x", more))
			defer conn.Close()
			conn.reader = bufio.NewReaderSize(slow{conn.Conn}, 8<<10)
			if status, body, _ := conn.answer(t); status != http.StatusOK || strings.Count(body, "x") < 100_000 {
				t.Errorf("%d, ended with %.300s", status, body[max(0, len(body)-300):])
			}
		})
	}
}

// slow is a client that takes little at a time.
type slow struct{ net.Conn }

func (s slow) Read(p []byte) (int, error) {
	time.Sleep(7 * time.Second) // virtual
	return s.Conn.Read(p)
}
