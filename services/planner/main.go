package planner

import (
	"context"

	"github.com/switchyard-llm/switchyard/libs/config"
	"github.com/switchyard-llm/switchyard/libs/service"
)

// Main is the program: the configuration from a file, the environment and flags, then
// the service until ctx ends.
func Main(ctx context.Context, args []string) error {
	cfg := DefaultConfig()
	if err := config.Parse(args, &cfg); err != nil {
		return err
	}
	s, err := Open(ctx, cfg, service.Shared{})
	if err != nil {
		return err
	}
	return s.Run(ctx)
}
