package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/switchyard-llm/switchyard/libs/broker"
	"github.com/switchyard-llm/switchyard/libs/deadletter"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

// crashesFile has a line for each death.
const crashesFile = "crashes"

// TestRequestsThatKillWorkers sends prompts that kill whoever computes them. Each costs two workers and no
// answer but its own.
func TestRequestsThatKillWorkers(t *testing.T) {
	file := filepath.Join(t.TempDir(), crashesFile)
	c := start(t, options{
		shape:   slowShape(),
		decode:  func(_ int, d *decodeConfig) { d.Pool.PoolTokens, d.HandOff.Lease, d.Crashes = 16384, lease, file },
		prefill: func(_ int, p *prefillConfig) { p.Crashes = file },
	})
	src := newSource(6, slowShape().VocabTokens)
	t.Run("a killer beside others", func(t *testing.T) { c.with(t).killer(src, file, false) })
	t.Run("a killer that is prefilled elsewhere", func(t *testing.T) { c.with(t).killer(src, file, true) })
	t.Run("two deaths by hand", func(t *testing.T) { c.with(t).killedTwiceByHand(src) })
}

// revive starts what dies until done is closed.
func (c *cluster) revive(done <-chan struct{}) {
	c.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(patience); ; {
		for _, name := range []string{"decode-0", "decode-1", "prefill-0", "prefill-1"} {
			select {
			case <-c.processes[name].done:
				c.again(name)
			default:
			}
		}
		select {
		case <-tick.C:
		case <-done:
			return
		case <-end:
			c.t.Fatalf("not within %v", patience)
		}
	}
}

func (c *cluster) killer(src *source, file string, elsewhere bool) {
	b := c.prepare(12, func(int) request { return streaming(src, 60) })
	if !elsewhere {
		c.setPolicy(local, generationv1.Placement_PLACEMENT_LOCAL)
	}
	killer := long(src, 200)
	for i := range 2 * killerRun {
		killer.prompt[120+i] = killerToken
	}
	_ = os.Remove(file)
	letters := len(c.letters())
	wait := c.askAll(b)
	var got []answer
	var killed string
	done := make(chan struct{})
	go func() {
		defer close(done)
		killed = c.post(killer)
		got = wait()
	}()
	c.revive(done)
	if want := "500 request_crashed_worker"; killed != want {
		c.t.Errorf("the killer's answer: %s, want %s", killed, want)
	}
	c.compare(b, got)
	text, err := os.ReadFile(file)
	if err != nil {
		c.t.Fatal(err)
	}
	deaths := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(deaths) != 2 || !strings.HasPrefix(deaths[1], "decode") || !strings.HasSuffix(deaths[1], " 1") || strings.HasPrefix(deaths[0], "prefill") != elsewhere {
		c.t.Errorf("deaths (worker, sequences in its last step): %q, want two, the second of a decode worker with one", deaths)
	}
	sent := c.letters()[letters:]
	if len(sent) != 1 || int(sent[0].GetPromptTokens()) != len(killer.prompt) || len(sent[0].GetDeaths()) != 2 || !sent[0].GetDeaths()[1].GetAlone() {
		c.t.Fatalf("dead letters %v, want one with two deaths", sent)
	}
	for i, d := range sent[0].GetDeaths() {
		if !strings.HasPrefix(deaths[i], d.GetWorker()+" ") {
			c.t.Errorf("death %d is of %s by the letter, of %s by the file", i, d.GetWorker(), deaths[i])
		}
	}
	c.idle()
}

// post asks over HTTP and answers the status and the error's code.
func (c *cluster) post(r request) string {
	body, err := json.Marshal(map[string]any{"model": modelName, "prompt": r.prompt, "max_tokens": r.maxTokens})
	if err != nil {
		return err.Error()
	}
	response, err := http.Post("http://"+c.http+"/v1/completions", "application/json", bytes.NewReader(body))
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	var said struct{ Error struct{ Code string } }
	if err := json.NewDecoder(response.Body).Decode(&said); err != nil {
		return err.Error()
	}
	return fmt.Sprint(response.StatusCode, " ", said.Error.Code)
}

// letters are all dead letters.
func (c *cluster) letters() []*generationv1.DeadLetter {
	c.t.Helper()
	nc, err := broker.Connect(c.t.Context(), "nats://"+c.nats, "test", discard)
	if err != nil {
		c.t.Fatal(err)
	}
	defer nc.Close()
	letters, _, err := deadletter.Latest(c.t.Context(), nc, 1000)
	if err != nil {
		c.t.Fatal(err)
	}
	return letters
}

// killedTwiceByHand kills the decode workers one after the other while answers come.
func (c *cluster) killedTwiceByHand(src *source) {
	b := c.prepare(24, func(int) request { return streaming(src, 100) }).longest(6)
	c.setPolicy(local, generationv1.Placement_PLACEMENT_LOCAL)
	c.idle()
	letters := len(c.letters())
	chunks := make([]atomic.Int64, len(b.requests))
	got, errs := make([]answer, len(b.requests)), make([]error, len(b.requests))
	var streams sync.WaitGroup
	for i, r := range b.requests {
		streams.Go(func() { got[i], errs[i] = c.ask(c.t.Context(), r, func() { chunks[i].Add(1) }) })
	}
	for _, name := range []string{"decode-0", "decode-1"} {
		before := make([]int64, len(chunks))
		for i := range chunks {
			before[i] = chunks[i].Load()
		}
		c.eventually("every answer has come on", func() error {
			for i := range chunks {
				if n := chunks[i].Load() - before[i]; n < 20 {
					return fmt.Errorf("request %d: %d pieces more", i, n)
				}
			}
			return nil
		})
		c.kill(name)
		c.again(name)
	}
	streams.Wait()
	for i, err := range errs {
		if err != nil {
			c.t.Errorf("request %d: %v", i, err)
		}
	}
	c.compare(b, got)
	if sent := c.letters()[letters:]; len(sent) > 0 {
		c.t.Errorf("dead letters %v, want none", sent)
	}
	c.idle()
}
