package frontend

import (
	"context"

	"github.com/switchyard-llm/switchyard/libs/config"
)

// Main is the program: the configuration from a file, the environment and flags, then
// the service until ctx ends.
func Main(ctx context.Context, args []string) error {
	cfg := DefaultConfig()
	if err := config.Parse(args, &cfg); err != nil {
		return err
	}
	s, err := Open(ctx, cfg, Shared{})
	if err != nil {
		return err
	}
	return s.Run(ctx)
}
