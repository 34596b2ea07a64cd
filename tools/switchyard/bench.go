package main

import (
	"context"
	"fmt"
	"io"

	"github.com/switchyard-llm/switchyard/tools/bench"
)

// benchCmd holds the benchmarks.
type benchCmd struct {
	Transfer  benchTransferCmd  `cmd:"" help:"Measure how fast KV blocks and notes get from one worker to another."`
	Route     benchRouteCmd     `cmd:"" help:"Replay a trace of requests against simulated workers, with any routing policy."`
	Tokenizer benchTokenizerCmd `cmd:"" help:"Measure how fast text becomes tokens, and tokens text."`
	Serve     benchServeCmd     `cmd:"" help:"Load a server and measure what its clients see."`
}

// benchTransferCmd moves blocks between two agents of this process, or to another host.
type benchTransferCmd struct {
	Transport  string  `help:"How blocks move: inproc, shm or tcp." default:"shm"`
	BlockBytes int     `help:"Size of a block." default:"1048576"`
	Blocks     int     `help:"How many blocks one transfer moves." default:"64"`
	Seconds    float64 `help:"How long each figure is measured." default:"2"`
	Verify     bool    `help:"Checksum the bytes on the way (tcp)."`
	Serve      string  `help:"Be the other side, for writers of other hosts, at this host:port, until interrupted." placeholder:"HOST:PORT" xor:"side"`
	To         string  `help:"Move to the side that serves at this host:port." placeholder:"HOST:PORT" xor:"side"`
	Listen     string  `help:"Where the agent of the writing side listens (tcp)." default:"127.0.0.1:0"`
	Advertise  string  `help:"Where the other host finds this one's agent, if not where it listens; port 0 is its own." placeholder:"HOST:PORT"`
	JSON       bool    `help:"Print one JSON object a line: bench, case, figure, value, unit." name:"json"`
}

// Run implements the command.
func (c *benchTransferCmd) Run(ctx context.Context, out io.Writer) error {
	cfg := bench.TransferConfig{
		Transport: c.Transport, BlockBytes: c.BlockBytes, Blocks: c.Blocks, Seconds: c.Seconds, Verify: c.Verify,
		Listen: c.Listen, Advertise: c.Advertise,
	}
	if c.Serve != "" {
		cfg.Listen = c.Serve
		return bench.Serve(ctx, cfg, func(line string) { fmt.Fprintln(out, line) })
	}
	report := bench.Table(out)
	if c.JSON {
		report = bench.JSON(out)
	}
	return bench.Transfer(ctx, cfg, c.To, report)
}
