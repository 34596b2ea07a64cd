package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/switchyard-llm/switchyard/libs/discovery"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	processorv1 "github.com/switchyard-llm/switchyard/proto/switchyard/processor/v1"
	"github.com/switchyard-llm/switchyard/services/decodeworker"
	"github.com/switchyard-llm/switchyard/services/prefillworker"
	"github.com/switchyard-llm/switchyard/services/processor"
)

// otherName is a second model's, with what a URL and a key would take apart.
const otherName = "org/big & wide ü"

// other is a second model in a cluster: a decode worker, a prefill worker and two processors.
type other struct {
	*cluster
	decode     decodeworkerv1.DecodeWorkerClient
	processors []processorv1.ProcessorClient
}

var otherProcesses = []string{"other-processor-0", "other-processor-1", "other-decode-0", "other-prefill-0"}

// addOther starts the second model.
func (c *cluster) addOther(model string) *other {
	c.t.Helper()
	o := &other{cluster: c}
	c.t.Cleanup(o.stopOther)
	own := *c // whose workers serve the other model
	own.model = model
	d := decodeConfig{Config: decodeworker.DefaultConfig()}
	own.worker(&d.ProcessConfig, "other-decode-0")
	p := prefillConfig{Config: prefillworker.DefaultConfig()}
	own.worker(&p.ProcessConfig, "other-prefill-0")
	d.Engine.Name, p.Engine.Name = otherName, otherName
	c.spawn(d.ID, "decode", d)
	c.spawn(p.ID, "prefill", p)
	o.decode = decodeworkerv1.NewDecodeWorkerClient(c.dial(d.Listen))
	for i := range 2 {
		pr := processor.DefaultConfig()
		pr.ID, pr.Listen, pr.Etcd, pr.NATS = fmt.Sprintf("other-processor-%d", i), c.address(), []string{c.etcd}, "nats://"+c.nats
		pr.Model, pr.Name, pr.Telemetry.LogLevel = model, otherName, "warn"
		c.spawn(pr.ID, "processor", pr)
		o.processors = append(o.processors, processorv1.NewProcessorClient(c.dial(pr.Listen)))
	}
	c.await(otherProcesses...)
	return o
}

// stopOther ends what the test has left of the second model, before the cluster ends.
func (o *other) stopOther() {
	for _, name := range otherProcesses {
		p := o.processes[name]
		if p == nil || p.killed {
			continue
		}
		if p.cmd.Process.Signal(syscall.SIGTERM) == nil {
			o.ended(name)
		}
	}
}

// complete asks over HTTP and answers the status, and the text or the error's code.
func (c *cluster) complete(model, prompt string) (status int, text string) {
	c.t.Helper()
	body, err := json.Marshal(map[string]any{"model": model, "prompt": prompt, "max_tokens": 4, "temperature": 0})
	if err != nil {
		c.t.Fatal(err)
	}
	response, err := http.Post("http://"+c.http+"/v1/completions", "application/json", bytes.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	var answer struct {
		Choices []struct{ Text string }
		Error   struct{ Code string }
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		c.t.Fatal(err)
	}
	if len(answer.Choices) == 1 {
		text = answer.Choices[0].Text
	}
	return response.StatusCode, text + answer.Error.Code
}

// served lists the models at /v1/models.
func (c *cluster) served() []string {
	c.t.Helper()
	response, err := http.Get("http://" + c.http + "/v1/models")
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	var list struct{ Data []struct{ ID string } }
	text, err := io.ReadAll(response.Body)
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	var names []string
	for _, m := range list.Data {
		names = append(names, m.ID)
	}
	return names
}

func (c *cluster) untilServed(want ...string) {
	c.t.Helper()
	c.eventually("the models are listed", func() error {
		if got := c.served(); !slices.Equal(got, want) {
			return fmt.Errorf("%q, want %q", got, want)
		}
		return nil
	})
}

// workersOf are the workers that answer n requests, and those that compute the prompts.
func (c *cluster) workersOf(model string, n int) (decodes, prefills []string) {
	c.t.Helper()
	for i := range n {
		r := request{text: fmt.Sprintf("%s and %d %s", model, i, strings.Repeat("on and on ", 20)), maxTokens: 3}
		a, err := c.askFor(model, r)
		if err != nil {
			c.t.Fatalf("%s, request %d: %v", model, i, err)
		}
		if id := a.served.GetDecodeWorker(); !slices.Contains(decodes, id) {
			decodes = append(decodes, id)
		}
		if id := a.served.GetPrefillWorker(); id != "" && !slices.Contains(prefills, id) {
			prefills = append(prefills, id)
		}
	}
	return decodes, prefills
}

func (c *cluster) wantWorkers(model, prefix string, n int) {
	c.t.Helper()
	decodes, prefills := c.workersOf(model, n)
	for _, id := range append(decodes, prefills...) {
		if !strings.HasPrefix(id, prefix+"decode-") && !strings.HasPrefix(id, prefix+"prefill-") {
			c.t.Errorf("%s was served by %q and %q", model, decodes, prefills)
			return
		}
	}
	if len(prefills) == 0 {
		c.t.Errorf("no prompt of %s was computed remotely", model)
	}
}

// workersKnownTo are the decode workers that a processor knows.
func (c *cluster) workersKnownTo(p processorv1.ProcessorClient) (ids []string) {
	c.t.Helper()
	r, err := p.Routing(c.t.Context(), &processorv1.RoutingRequest{})
	if err != nil {
		c.t.Fatal(err)
	}
	for _, w := range r.GetWorkers() {
		ids = append(ids, w.GetWorker())
	}
	return ids
}

// bothRemote has all prompts computed by prefill workers.
func (o *other) bothRemote() {
	o.t.Helper()
	o.setPolicy(remote, generationv1.Placement_PLACEMENT_REMOTE)
	if err := o.discovery.PutJSON(o.t.Context(), discovery.ConfigKey(otherName, "disagg"), remote); err != nil {
		o.t.Fatal(err)
	}
	o.eventually("the policy of the other model is in force", func() error {
		a, err := o.askFor(otherName, request{text: strings.Repeat("go there ", 20), salt: fmt.Sprint(time.Now().UnixNano()), maxTokens: 1})
		if err == nil && a.served.GetPlacement() != generationv1.Placement_PLACEMENT_REMOTE {
			err = fmt.Errorf("placed %v", a.served.GetPlacement())
		}
		return err
	})
}

func TestTwoModelsBehindOneFrontend(t *testing.T) {
	c := start(t, options{model: "sim:llama-3.1-8b"})
	o := c.addOther("sim:llama-3.1-70b")
	c.untilServed(otherName, modelName)
	o.bothRemote()

	c.wantWorkers(modelName, "", 20)
	c.wantWorkers(otherName, "other-", 20)
	if ids := c.workersKnownTo(c.processor); !slices.Equal(ids, []string{"decode-0", "decode-1"}) {
		t.Errorf("the first model's processor knows %q", ids)
	}
	for i, p := range o.processors {
		if ids := c.workersKnownTo(p); !slices.Equal(ids, []string{"other-decode-0"}) {
			t.Errorf("the other model's processor %d knows %q", i, ids)
		}
	}
	if status, code := c.complete("nobody's", "hi"); status != http.StatusNotFound || code != "model_not_found" {
		t.Errorf("an unknown model: %d %s", status, code)
	}

	c.kill("other-processor-0")
	c.eventually("the other processor alone serves", func() error { // the connection's end may take a moment to be seen
		_, err := c.askFor(otherName, request{text: "still there?", maxTokens: 1})
		return err
	})
	c.wantWorkers(otherName, "other-", 20)

	c.kill("other-decode-0")
	c.kill("other-prefill-0")
	c.eventually("a model without workers is unavailable", func() error {
		c.wantWorkers(modelName, "", 2) // meanwhile as well
		if status, code := c.complete(otherName, "hi"); status != http.StatusServiceUnavailable {
			return fmt.Errorf("%d %s", status, code)
		}
		return nil
	})
	c.untilServed(modelName)
	c.wantWorkers(modelName, "", 20)
}
