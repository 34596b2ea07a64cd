package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/switchyard-llm/switchyard/libs/config"
	"github.com/switchyard-llm/switchyard/services/frontend"
)

// keysVariable has the keys, with commas between them, where they should not show among the
// arguments of the process.
const keysVariable = "SWITCHYARD_API_KEYS"

// readFrontend reads the configuration of the frontend: that of its file, if there is one, of the
// environment and of the flags.
func (c *serveCmd) readFrontend() error {
	c.frontend = frontend.DefaultConfig()
	if keys, set := os.LookupEnv(keysVariable); set && keys == "" { // else a mistake opens the server to all
		return errors.New(keysVariable + " is empty, want keys, or no such variable")
	}
	var args []string
	if c.Frontend != "" {
		args = []string{"--config", c.Frontend}
	}
	environ := slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "SWITCHYARD_CONFIG=") })
	if err := config.ParseEnv(args, environ, io.Discard, &c.frontend); err != nil {
		return fmt.Errorf("configuration of the frontend: %w", err)
	}
	if len(c.APIKey) > 0 {
		c.frontend.APIKeys = c.APIKey
	}
	if err := c.frontend.Validate(); err != nil {
		return fmt.Errorf("configuration of the frontend: %w", err)
	}
	return nil
}
