package prefillqueue

import (
	"fmt"
	"regexp"
	"time"

	"github.com/switchyard-llm/switchyard/libs/broker"
)

// Config is one queue and its limits. Processes that share a queue have equal limits.
type Config struct {
	// Stream is the JetStream stream that holds all queues.
	Stream string `yaml:"stream" help:"name of the JetStream stream"`
	// Pool names the pool of prefill workers.
	Pool string `yaml:"pool" help:"name of the pool of prefill workers"`
	// KVFormat is the format both sides share; any text. Set by the worker, not by a file.
	KVFormat string `yaml:"-"`
	// Priority is the class of the jobs; any text.
	Priority string `yaml:"priority" help:"priority class of the jobs"`
	// Worker, unless empty, makes it the queue of the jobs that are kept for the prefill worker
	// of that name. Set by the worker, not by a file.
	Worker string `yaml:"-"`
	// MaxJobs bounds the jobs of the queue, waiting and in work.
	MaxJobs int `yaml:"max_jobs" help:"most jobs in the queue, waiting and in work"`
	// MaxMessageBytes bounds a job; above it the sequence stays behind. See Publish.
	MaxMessageBytes int `yaml:"max_message_bytes" help:"largest job; a longer prompt travels with the claim"`
	// MaxAckPending bounds the jobs in work; above the slots of the whole pool.
	MaxAckPending int `yaml:"max_ack_pending" help:"most jobs in work, above the slots of the whole pool"`
	// AckWait is the silence after which a job in work is delivered again.
	AckWait time.Duration `yaml:"ack_wait" help:"silence after which a job in work is delivered again"`
	// PublishTimeout bounds a publish.
	PublishTimeout time.Duration `yaml:"publish_timeout" help:"how long a publish may take"`
	// DepthAge is how old a depth may be before it is asked for again.
	DepthAge time.Duration `yaml:"depth_age" help:"how old a known depth may be"`
	// Replicas are the NATS servers that hold the stream.
	Replicas int `yaml:"replicas" help:"NATS servers that hold the stream"`
}

// DefaultConfig suits a pool of tens of workers; only KVFormat is left to set.
func DefaultConfig() Config {
	return Config{
		Stream:          "PREFILL",
		Pool:            "default",
		Priority:        "normal",
		MaxJobs:         1024,
		MaxMessageBytes: 256 << 10,
		MaxAckPending:   1024,
		AckWait:         10 * time.Second,
		PublishTimeout:  100 * time.Millisecond,
		DepthAge:        100 * time.Millisecond,
		Replicas:        1,
	}
}

var streamName = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)

// Validate names the first field that is not as expected.
func (c Config) Validate() error {
	switch {
	case !streamName.MatchString(c.Stream):
		return fmt.Errorf("stream: %q, want 1 to 64 letters, digits and dashes", c.Stream)
	case c.Pool == "":
		return fmt.Errorf("pool: want a name")
	case c.KVFormat == "":
		return fmt.Errorf("kv_format: want one")
	case c.Priority == "":
		return fmt.Errorf("priority: want a name")
	case c.MaxJobs < 1:
		return fmt.Errorf("max_jobs: %d, want at least 1", c.MaxJobs)
	case c.MaxMessageBytes < 1024:
		return fmt.Errorf("max_message_bytes: %d, want at least 1024", c.MaxMessageBytes)
	case c.MaxAckPending < 1:
		return fmt.Errorf("max_ack_pending: %d, want at least 1", c.MaxAckPending)
	case c.AckWait < 100*time.Millisecond:
		return fmt.Errorf("ack_wait: %v, want at least 100ms", c.AckWait)
	case c.PublishTimeout <= 0:
		return fmt.Errorf("publish_timeout: %v, want more than 0", c.PublishTimeout)
	case c.DepthAge < 0:
		return fmt.Errorf("depth_age: %v, want at least 0", c.DepthAge)
	case c.Replicas < 1 || c.Replicas > 5:
		return fmt.Errorf("replicas: %d, want 1 to 5", c.Replicas)
	}
	return nil
}

// subjects are all subjects of the stream.
func (c Config) subjects() string { return "switchyard." + c.Stream + ".>" }

// subject is this queue's own.
func (c Config) subject() string {
	s := "switchyard." + c.Stream + "." + broker.Token(c.Pool) + "." + broker.Token(c.KVFormat) + "." + broker.Token(c.Priority)
	if c.Worker != "" {
		s += "." + broker.Token(c.Worker)
	}
	return s
}

// consumer is this queue's consumer; no token holds an underscore, so names never meet.
func (c Config) consumer() string {
	s := broker.Token(c.Pool) + "_" + broker.Token(c.KVFormat) + "_" + broker.Token(c.Priority)
	if c.Worker != "" {
		s += "_" + broker.Token(c.Worker)
	}
	return s
}
