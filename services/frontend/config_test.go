package frontend_test

import (
	"strings"
	"testing"

	"github.com/switchyard-llm/switchyard/services/frontend"
)

func TestValidateNamesTheField(t *testing.T) {
	if err := frontend.DefaultConfig().Validate(); err != nil {
		t.Errorf("the default: %v", err)
	}
	for field, spoil := range map[string]func(*frontend.Config){
		"http":                func(c *frontend.Config) { c.HTTP = "" },
		"listen":              func(c *frontend.Config) { c.Listen = "" },
		"etcd":                func(c *frontend.Config) { c.Etcd = nil },
		"drain":               func(c *frontend.Config) { c.Drain = -1 },
		"max_body_bytes":      func(c *frontend.Config) { c.MaxBodyBytes = 0 },
		"max_requests":        func(c *frontend.Config) { c.MaxRequests = 0 },
		"request_timeout":     func(c *frontend.Config) { c.RequestTimeout = 0 },
		"body_timeout":        func(c *frontend.Config) { c.BodyTimeout = 0 },
		"write_timeout":       func(c *frontend.Config) { c.WriteTimeout = 0 },
		"first_token_timeout": func(c *frontend.Config) { c.FirstToken = -1 },
		"stream_idle_timeout": func(c *frontend.Config) { c.StreamIdle = -1 },
		"cors_origins":        func(c *frontend.Config) { c.CORSOrigins = []string{"example.com"} },
		"keepalive":           func(c *frontend.Config) { c.Keepalive = 0 },
	} {
		cfg := frontend.DefaultConfig()
		spoil(&cfg)
		if err := cfg.Validate(); err == nil || !strings.HasPrefix(err.Error(), field+" is ") {
			t.Errorf("%s: %v", field, err)
		}
	}
}
