package frontend

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/switchyard-llm/switchyard/libs/service"
)

// Config is the service's configuration.
type Config struct {
	service.Config `yaml:",inline"`

	HTTP string `yaml:"http" help:"address of the OpenAI server, host:port; it shows /metrics too where metrics is empty"`
	// HTTPCert and HTTPKey are files; without them the OpenAI server speaks plain HTTP.
	HTTPCert string `yaml:"http_cert" help:"PEM file with the certificate chain of the OpenAI server; empty: plain HTTP"`
	HTTPKey  string `yaml:"http_key" help:"PEM file with its key"`

	MaxBodyBytes   int           `yaml:"max_body_bytes" help:"largest request body, after decompression as well"`
	MaxRequests    int           `yaml:"max_requests" help:"requests in flight; one more is answered 429, and so is a body while four times as many are being received"`
	RequestTimeout time.Duration `yaml:"request_timeout" help:"how long an answer may take from the request to its end"`
	FirstToken     time.Duration `yaml:"first_token_timeout" help:"how long an answer may wait for its first token, in queues as well; 0: as long as request_timeout allows"`
	StreamIdle     time.Duration `yaml:"stream_idle_timeout" help:"longest time without a new token once the first came; then the answer ends with an error and its generation is stopped; 0: no bound"`
	DrainDelay     time.Duration `yaml:"drain_delay" help:"how long after SIGTERM connections are still taken, while /health and /ready already say no; then what runs has the time drain"`
	BodyTimeout    time.Duration `yaml:"body_timeout" help:"how long a client may take to send a body"`
	WriteTimeout   time.Duration `yaml:"write_timeout" help:"how long a client may leave a piece of an answer unread"`
	Keepalive      time.Duration `yaml:"keepalive" help:"longest silence within a stream before a comment is sent"`
	Strict         bool          `yaml:"strict" help:"refuse parameters that nobody knows; else they are ignored, and the header X-Switchyard-Ignored names them"`
	APIKeys        []string      `yaml:"api_keys" help:"keys of which an OpenAI client must send one as its bearer token; none: no key is asked for"`
	CORSOrigins    []string      `yaml:"cors_origins" help:"origins of web pages that may use the API, such as https://chat.example.com; * for all, none if empty"`
}

// DefaultConfig serves OpenAI clients on port 8000 and runs with an etcd on this host.
func DefaultConfig() Config {
	return Config{
		Config: service.DefaultConfig("frontend-0", "127.0.0.1:7001", 10*time.Second), HTTP: ":8000",
		MaxBodyBytes: 4 << 20, MaxRequests: 1024, APIKeys: []string{}, CORSOrigins: []string{},
		RequestTimeout: 10 * time.Minute, StreamIdle: time.Minute, BodyTimeout: time.Minute, WriteTimeout: 30 * time.Second, Keepalive: 15 * time.Second,
	}
}

// Validate names the first field that cannot be.
func (c Config) Validate() error {
	if c.HTTP == "" {
		return errors.New(`http is empty, want an address such as ":8000"`)
	}
	switch {
	case c.HTTPCert != "" && c.HTTPKey == "":
		return fmt.Errorf("http_cert is %q without http_key, want both or none", c.HTTPCert)
	case c.HTTPKey != "" && c.HTTPCert == "":
		return fmt.Errorf("http_key is %q without http_cert, want both or none", c.HTTPKey)
	}
	for _, bound := range []struct {
		name  string
		value int
	}{{"max_body_bytes", c.MaxBodyBytes}, {"max_requests", c.MaxRequests}} {
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
	for _, limit := range []struct {
		name  string
		value time.Duration
	}{{"first_token_timeout", c.FirstToken}, {"stream_idle_timeout", c.StreamIdle}, {"drain_delay", c.DrainDelay}} {
		if limit.value < 0 {
			return fmt.Errorf("%s is %v, want at least 0", limit.name, limit.value)
		}
	}
	for i, key := range c.APIKeys {
		if key == "" || strings.TrimSpace(key) != key {
			return fmt.Errorf("api_keys is a list whose key %d is empty or has blanks around it, want none such", i+1)
		}
	}
	for _, origin := range c.CORSOrigins {
		if err := checkOrigin(origin); err != nil {
			return err
		}
	}
	return c.Config.Validate()
}
