package processor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-llm/switchyard/libs/modelstore"
	"github.com/switchyard-llm/switchyard/libs/service"
	"github.com/switchyard-llm/switchyard/services/processor/router"
)

// Config is the service's configuration.
type Config struct {
	service.Config `yaml:",inline"`

	NATS             string        `yaml:"nats" help:"URL of NATS, which carries KV events, bookings and dead letters; while it cannot be reached, or if empty, the processor goes by what it knows itself"`
	Model            string        `yaml:"model" help:"whose tokenizer and chat template are used: a GGUF file, the name of a model that can be fetched, or sim: and the shape of a simulated one, such as sim:llama-3.1-70b"`
	Tokenizer        string        `yaml:"tokenizer" help:"for a simulated model: the file whose tokenizer it has, a tokenizer.json or GGUF file, the same as its workers'; empty: each byte is a token"`
	Name             string        `yaml:"name" help:"name under which the model is served, the same as at its workers; its own if empty"`
	DefaultMaxTokens int           `yaml:"default_max_tokens" help:"most tokens of an answer where the request does not say; the rest of the context if that is less"`
	MaxRequests      int           `yaml:"max_requests" help:"most requests in work; further ones are refused"`
	MaxBodyBytes     int           `yaml:"max_body_bytes" help:"largest request body that the frontends take"`
	Migrations       int           `yaml:"migrations" help:"how often a request may go on to another decode worker when one is lost or refuses it"`
	DispatchWait     time.Duration `yaml:"dispatch_wait" help:"how long a request waits for a decode worker while none can be reached; a new one only where one is known"`
	Router           router.Config `yaml:"router"`
}

// DefaultConfig runs on one host with the usual port of etcd.
func DefaultConfig() Config {
	return Config{
		Config: service.DefaultConfig("processor-0", "127.0.0.1:7002", 30*time.Second),
		NATS:   nats.DefaultURL,
		Model:  modelstore.DefaultModel, DefaultMaxTokens: 1024, MaxRequests: 1024, MaxBodyBytes: 16 << 20,
		Migrations: 3, DispatchWait: 30 * time.Second,
		Router: router.DefaultConfig(),
	}
}

// load reads the model.
func (c Config) load(ctx context.Context) (*Model, error) {
	if shape, is := strings.CutPrefix(c.Model, simulated); is {
		return SimModel(shape, c.Name, c.Tokenizer)
	}
	return LoadModel(ctx, c.Model, c.Name)
}

// Validate names the first field that cannot be.
func (c Config) Validate() error {
	switch {
	case c.Model == "":
		return errors.New("model is empty, want a GGUF file or a name")
	case simulatedShape(c.Model) != nil:
		return fmt.Errorf("model is %q: the shape %w", c.Model, simulatedShape(c.Model))
	case c.Tokenizer != "" && !strings.HasPrefix(c.Model, simulated):
		return fmt.Errorf("tokenizer is %q, want it empty: the model %q has its own", c.Tokenizer, c.Model)
	case c.DispatchWait < 0:
		return fmt.Errorf("dispatch_wait is %v, want at least 0", c.DispatchWait)
	}
	for _, f := range []struct {
		name       string
		value, min int
	}{
		{"default_max_tokens", c.DefaultMaxTokens, 1}, {"max_requests", c.MaxRequests, 1},
		{"max_body_bytes", c.MaxBodyBytes, 1}, {"migrations", c.Migrations, 0},
	} {
		if f.value < f.min {
			return fmt.Errorf("%s is %d, want at least %d", f.name, f.value, f.min)
		}
	}
	if err := c.Router.Validate(); err != nil {
		return fmt.Errorf("router.%w", err)
	}
	return c.Config.Validate()
}
