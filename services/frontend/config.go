package frontend

import (
	"errors"
	"fmt"
	"time"

	"github.com/switchyard-llm/switchyard/libs/telemetry"
)

// Config is the service's configuration.
type Config struct {
	ID        string        `yaml:"id" help:"name of this frontend among the members"`
	HTTP      string        `yaml:"http" help:"address of the OpenAI server, host:port"`
	Listen    string        `yaml:"listen" help:"address of the gRPC server, host:port"`
	Advertise string        `yaml:"advertise" help:"address by which others reach the gRPC server; the listening one if empty"`
	Metrics   string        `yaml:"metrics" help:"address of a server of its own for /metrics; served beside the OpenAI paths if empty"`
	Drain     time.Duration `yaml:"drain" help:"how long requests may go on after SIGTERM"`
	Etcd      []string      `yaml:"etcd" help:"endpoints of etcd"`

	MaxBodyBytes   int           `yaml:"max_body_bytes" help:"largest request body, after decompression as well"`
	MaxRequests    int           `yaml:"max_requests" help:"requests in flight; one more is answered 429"`
	RequestTimeout time.Duration `yaml:"request_timeout" help:"how long an answer may take from the request to its end"`
	BodyTimeout    time.Duration `yaml:"body_timeout" help:"how long a client may take to send a body"`
	WriteTimeout   time.Duration `yaml:"write_timeout" help:"how long a client may leave a piece of an answer unread"`
	Keepalive      time.Duration `yaml:"keepalive" help:"longest silence within a stream before a comment is sent"`
	QueueChunks    int           `yaml:"queue_chunks" help:"pieces of one answer that wait for a slow client; then its generation waits"`

	Telemetry telemetry.Config `yaml:"telemetry"`
}

// DefaultConfig serves OpenAI clients on port 8000 and runs with an etcd on this host.
func DefaultConfig() Config {
	return Config{
		ID: "frontend-0", HTTP: ":8000", Listen: "127.0.0.1:7001", Drain: 10 * time.Second,
		Etcd:         []string{"127.0.0.1:2379"},
		MaxBodyBytes: 4 << 20, MaxRequests: 1024, QueueChunks: 64,
		RequestTimeout: 10 * time.Minute, BodyTimeout: time.Minute, WriteTimeout: 30 * time.Second, Keepalive: 15 * time.Second,
		Telemetry: telemetry.DefaultConfig(),
	}
}

// Validate names the first field that cannot be.
func (c Config) Validate() error {
	switch {
	case c.ID == "":
		return errors.New("id is empty, want a name")
	case c.HTTP == "":
		return errors.New(`http is empty, want an address such as ":8000"`)
	case c.Listen == "":
		return errors.New(`listen is empty, want an address such as "127.0.0.1:7001"`)
	case len(c.Etcd) == 0:
		return errors.New("etcd is empty, want at least one endpoint")
	case c.Drain < 0:
		return fmt.Errorf("drain is %v, want at least 0", c.Drain)
	}
	for _, bound := range []struct {
		name  string
		value int
	}{{"max_body_bytes", c.MaxBodyBytes}, {"max_requests", c.MaxRequests}, {"queue_chunks", c.QueueChunks}} {
		if bound.value < 1 {
			return fmt.Errorf("%s is %d, want at least 1", bound.name, bound.value)
		}
	}
	for _, limit := range []struct {
		name  string
		value time.Duration
	}{
		{"request_timeout", c.RequestTimeout}, {"body_timeout", c.BodyTimeout},
		{"write_timeout", c.WriteTimeout}, {"keepalive", c.Keepalive},
	} {
		if limit.value <= 0 {
			return fmt.Errorf("%s is %v, want more than 0", limit.name, limit.value)
		}
	}
	return c.Telemetry.Validate()
}
