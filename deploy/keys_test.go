package deploy

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/config"
	"github.com/switchyard-llm/switchyard/services/decodeworker"
	"github.com/switchyard-llm/switchyard/services/frontend"
	"github.com/switchyard-llm/switchyard/services/planner"
	"github.com/switchyard-llm/switchyard/services/prefillworker"
	"github.com/switchyard-llm/switchyard/services/processor"
)

// free takes any value of its type, as far as can be told before it is used.
const free = ""

// Of each service, every key and a value that cannot be, as it is written in the file.
var (
	everyService = map[string]string{
		"id": "a/b", "listen": `""`, "advertise": free, "metrics": free, "drain": "-1s", "etcd": "[]",
		"telemetry.otlp_endpoint": "host:4317", "telemetry.trace_file": free, "telemetry.log_level": "loud", "telemetry.log_format": "xml",
	}
	everyWorker = map[string]string{
		"nats": `""`, "transport": "pigeon", "sockets": `""`, "transfer_listen": free, "transfer_advertise": free,
		"transfer_connections": "17", "transfer_verify": free, "transfer_silence": "1ms",
		"transfer_tls.cert": free, "transfer_tls.key": free, "transfer_tls.ca": free, // one alone: the error names those that lack
		"engine.kind": "steam", "engine.model": `""`, "engine.name": free, "engine.block_tokens": "24", "engine.threads": "-1", "engine.style": "shove",
		"engine.dp_rank": "1", "engine.dp_group": free,
		"engine.sim.shape": "gpt-9", "engine.sim.gpu": "abacus", "engine.sim.numerics": "int3", "engine.sim.tp": "0", "engine.sim.timing": "moon",
		"engine.sim.profile": "p.json", "engine.sim.speedup": "-1", "engine.sim.link_gbytes": "-1", "engine.sim.host_blocks": "-1",
		"engine.sim.host_gbytes": "-1", "engine.sim.disk_blocks": "-1", "engine.sim.disk_gbytes": "-1", "engine.sim.tokenizer": free, "engine.sim.context_tokens": "-1",
		"pool.tokens": "0", "pool.step_tokens": "64", "pool.running_max": "0", "pool.waiting_max": "-1", "pool.quarantine_max": "-1", "pool.poison": free, "pool.prefault": free,
		"queue.jobs": "0", "queue.ack_wait": "1ms", "queue.timeout": "0s",
		"events.publish": free, "events.changes": "0", "events.interval": "-1s", "events.snapshots": "0",
		"events.zmq.endpoint": "host:1", "events.zmq.replay_endpoint": "ipc://x", "events.zmq.topic": free, "events.zmq.buffer_steps": "0", "events.zmq.encoding": "json",
	}
	services = map[string]service{
		"planner": of(planner.DefaultConfig, everyService),
		"frontend": of(frontend.DefaultConfig, everyService, map[string]string{
			"http": `""`, "http_cert": "c.pem", "http_key": "k.pem", "max_body_bytes": "0", "max_requests": "0", "request_timeout": "0s", "body_timeout": "0s",
			"write_timeout": "0s", "keepalive": "0s", "strict": free, "first_token_timeout": "-1s", "stream_idle_timeout": "-1s", "drain_delay": "-1s", "api_keys": `[" "]`, "cors_origins": "[example.com]",
		}),
		"processor": of(processor.DefaultConfig, everyService, map[string]string{
			"nats": free, "model": `""`, "tokenizer": "t.json", "name": free, "default_max_tokens": "0", "max_requests": "0", "max_body_bytes": "0", "migrations": "-1",
			"dispatch_wait": "-1s", "router.policy": "whim", "router.prefill_weight": "-1", "router.decode_weight": "-1", "router.stall_weight": "-1", "router.host_credit": "2",
			"router.disk_credit": "-1", "router.pending_credit": "1.5", "router.temperature": "-1", "router.memory_bytes": "0", "router.assume_for": "0s",
		}),
		"prefillworker": of(prefillworker.DefaultConfig, everyService, everyWorker, map[string]string{
			"jobs": "0", "calls": "0", "hold": "0s", "hold_per_token": "-1s",
		}),
		"decodeworker": of(decodeworker.DefaultConfig, everyService, everyWorker, map[string]string{
			"hand_off.deadline": "0s", "hand_off.deadline_per_token": "-1s", "hand_off.lease": "0s", "hand_off.later": "0s",
			"hand_off.proof": "0s", "hand_off.grants_max": "0", "hand_off.affinity": "-1s",
		}),
	}
)

// service reads a file as the service does, and says what values cannot be.
type service struct {
	read   func(args ...string) error
	fields []config.Field
	bad    map[string]string
}

func of[C interface{ Validate() error }](byDefault func() C, bad ...map[string]string) service {
	cfg := byDefault()
	fields, err := config.Fields(&cfg)
	if err != nil {
		panic(err)
	}
	s := service{fields: fields, bad: map[string]string{}}
	for _, b := range bad {
		maps.Copy(s.bad, b)
	}
	s.read = func(args ...string) error {
		cfg := byDefault()
		if err := config.ParseEnv(args, nil, io.Discard, &cfg); err != nil {
			return err
		}
		return cfg.Validate()
	}
	return s
}

// readFile reads a file in which one key is set.
func (s service) readFile(t *testing.T, key, value string) error {
	t.Helper()
	path := strings.Split(key, ".")
	var text strings.Builder
	for depth, name := range path {
		fmt.Fprintf(&text, "%s%s:", strings.Repeat("  ", depth), name)
		if depth < len(path)-1 {
			text.WriteString("\n")
		}
	}
	file := filepath.Join(t.TempDir(), "service.yaml")
	if err := os.WriteFile(file, []byte(text.String()+" "+value+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return s.read("--config", file)
}

func TestEveryErrorNamesTheKeyAsItIsWrittenAndWhatIsWanted(t *testing.T) {
	for name, s := range services {
		t.Run(name, func(t *testing.T) {
			keys := make([]string, len(s.fields))
			for i, f := range s.fields {
				keys[i] = f.Key
				if bad, known := s.bad[f.Key]; !known {
					t.Errorf("no value of %s is known here that cannot be", f.Key)
				} else if bad != free {
					wantNamed(t, s.readFile(t, f.Key, bad), f.Key, bad)
				}
				for _, shape := range []string{"{a: b}", "[[a]]"} { // no value is a section or a list of lists
					wantNamed(t, s.readFile(t, f.Key, shape), f.Key, shape)
				}
			}
			for key := range s.bad {
				if !slices.Contains(keys, key) {
					t.Errorf("there is no key %s", key)
				}
			}
		})
	}
}

// wantNamed wants an error that has the key as a word of its own, not as the end of another.
func wantNamed(t *testing.T, err error, key, value string) {
	t.Helper()
	switch {
	case err == nil:
		t.Errorf("%s: %s is taken", key, value)
	case !strings.Contains(" "+err.Error(), " "+key+" is "):
		t.Errorf("%s: %s: error %q does not name it", key, value, err)
	case !strings.Contains(err.Error(), "want "):
		t.Errorf("%s: %s: error %q does not say what is wanted", key, value, err)
	}
}
