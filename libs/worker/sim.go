package worker

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/switchyard-llm/switchyard/libs/engine"
	"github.com/switchyard-llm/switchyard/libs/engine/sim"
	"github.com/switchyard-llm/switchyard/libs/engine/sim/timing"
	"github.com/switchyard-llm/switchyard/libs/modelstore"
	"github.com/switchyard-llm/switchyard/libs/tokenizer"
)

// The kinds of engines.
const (
	CPU = "cpu" // computes
	Sim = "sim" // takes the time of a GPU and computes nothing
)

// The models of time of a simulated engine.
const (
	TimingMocker   = "mocker"
	TimingRoofline = "roofline"
	TimingProfile  = "profile"
)

var timings = []string{TimingMocker, TimingRoofline, TimingProfile}

// SimConfig says what a simulated engine stands for.
type SimConfig struct {
	Shape         string  `yaml:"shape" help:"shape of the model, such as llama-3.1-70b: its layers, heads and parameters"`
	GPU           string  `yaml:"gpu" help:"GPU, such as h100"`
	Numerics      string  `yaml:"numerics" help:"how weights, keys and values are kept: bf16 or fp8"`
	TP            int     `yaml:"tp" help:"GPUs that share the model, 1 to 64"`
	Timing        string  `yaml:"timing" help:"how long a step takes: roofline (by shape, numerics, gpu and tp), mocker (published formulas of a mocked engine) or profile (a measured table)"`
	Profile       string  `yaml:"profile" help:"JSON file of the measured table; for timing profile alone"`
	SpeedUp       float64 `yaml:"speedup" help:"factor by which all goes faster than it would; 0 or inf is as fast as can be"`
	LinkGBytes    float64 `yaml:"link_gbytes" help:"gigabytes a second of keys and values that leave the worker for another; 0 or inf is at once"`
	HostBlocks    int     `yaml:"host_blocks" help:"blocks of the host's memory, for those that the pool gave up; 0: none"`
	HostGBytes    float64 `yaml:"host_gbytes" help:"gigabytes a second at which they come back; 0 or inf is at once"`
	DiskBlocks    int     `yaml:"disk_blocks" help:"blocks of the disk, for those that the host's memory gave up; 0: none"`
	DiskGBytes    float64 `yaml:"disk_gbytes" help:"gigabytes a second at which they come back; 0 or inf is at once"`
	Tokenizer     string  `yaml:"tokenizer" help:"file whose vocabulary the model has, a tokenizer.json or GGUF file, the same as its processor's; empty: each byte is a token"`
	ContextTokens int     `yaml:"context_tokens" help:"longest sequence, in tokens; 0 is the shape's"`
}

const gigabyte = 1e9

// Bounds of a factor of speed: beyond them steps would take years, or nothing.
const speedUpLeast, speedUpMost = 1e-3, 1e6

// DefaultSimConfig is a model of middling size on one GPU. The link's speed is that which the
// mocked engine of the mocker's formulas assumes; the host is as far as PCIe 5 with 16 lanes, the
// disk a quick one.
func DefaultSimConfig() SimConfig {
	return SimConfig{
		Shape: "llama-3.1-8b", GPU: "h100", Numerics: string(timing.BF16), TP: 1, Timing: TimingRoofline, SpeedUp: 1,
		LinkGBytes: 64, HostGBytes: 50, DiskGBytes: 5,
	}
}

// Validate names the first field that cannot be, by its key within the section.
func (c SimConfig) Validate() error {
	if _, err := timing.ShapeNamed(c.Shape); err != nil {
		return fmt.Errorf("shape %w", err)
	}
	if _, err := timing.GPUNamed(c.GPU); err != nil {
		return fmt.Errorf("gpu %w", err)
	}
	if err := timing.Numerics(c.Numerics).Validate(); err != nil {
		return fmt.Errorf("numerics %w", err)
	}
	switch {
	case !slices.Contains(timings, c.Timing):
		return fmt.Errorf("timing is %q, want one of %s", c.Timing, strings.Join(timings, ", "))
	case c.Timing == TimingProfile && c.Profile == "":
		return errors.New("profile is empty, want a JSON file, as timing is profile")
	case c.Timing != TimingProfile && c.Profile != "":
		return fmt.Errorf("profile is %q, want it empty or timing profile, which is %s", c.Profile, c.Timing)
	}
	if c.SpeedUp > 0 && !math.IsInf(c.SpeedUp, 1) && (c.SpeedUp < speedUpLeast || c.SpeedUp > speedUpMost) {
		return fmt.Errorf("speedup is %v, want %v to %v, or 0 or inf", c.SpeedUp, speedUpLeast, speedUpMost)
	}
	for _, f := range []struct {
		name               string
		value, least, most int
	}{
		{"tp", c.TP, 1, sim.MaxTP}, {"host_blocks", c.HostBlocks, 0, PoolTokensMax}, {"disk_blocks", c.DiskBlocks, 0, PoolTokensMax},
		{"context_tokens", c.ContextTokens, 0, PoolTokensMax},
	} {
		if f.value < f.least || f.value > f.most {
			return fmt.Errorf("%s is %d, want %d to %d", f.name, f.value, f.least, f.most)
		}
	}
	for _, f := range []struct {
		name  string
		value float64
	}{{"speedup", c.SpeedUp}, {"link_gbytes", c.LinkGBytes}, {"host_gbytes", c.HostGBytes}, {"disk_gbytes", c.DiskGBytes}} {
		if math.IsNaN(f.value) || f.value < 0 {
			return fmt.Errorf("%s is %g, want at least 0", f.name, f.value)
		}
	}
	return nil
}

// model is how long its steps take.
func (c SimConfig) model(shape timing.Shape) (timing.Model, error) {
	switch c.Timing {
	case TimingMocker:
		return timing.Mocker{}, nil
	case TimingProfile:
		p, err := timing.LoadProfile(c.Profile)
		if err != nil {
			return nil, fmt.Errorf("profile: %w", err)
		}
		return p, nil
	}
	gpu, err := timing.GPUNamed(c.GPU)
	if err != nil {
		return nil, fmt.Errorf("gpu %w", err)
	}
	return timing.Roofline{Shape: shape, GPU: gpu, TP: c.TP, Numerics: timing.Numerics(c.Numerics)}, nil
}

// vocabulary is that of the tokenizer; nil: each byte is a token.
func (c SimConfig) vocabulary() (*sim.Vocabulary, error) {
	if c.Tokenizer == "" {
		return nil, nil
	}
	t, err := tokenizer.Cache{Folder: modelstore.Built()}.Open(c.Tokenizer)
	if err != nil {
		return nil, err
	}
	v, err := sim.NewVocabulary(t)
	if err != nil {
		return nil, fmt.Errorf("%s %w", c.Tokenizer, err)
	}
	return v, nil
}

// tiered is an engine that keeps blocks which the pool gave up, and tells of them.
type tiered interface{ SetTierSink(sink sim.TierSink) }

// linkBytesPerSecond is the speed of the link, by the clock of this world; 0: transfers take no
// longer than they do.
func (c SimConfig) linkBytesPerSecond() float64 {
	if !sim.Waits(c.SpeedUp) {
		return 0
	}
	return c.LinkGBytes * gigabyte * c.SpeedUp
}

// simulate builds the executor that an engine's configuration describes.
func (c EngineConfig) simulate() (engine.Executor, error) {
	shape, err := timing.ShapeNamed(c.Sim.Shape)
	if err != nil {
		return nil, fmt.Errorf("sim.shape %w", err)
	}
	model, err := c.Sim.model(shape)
	if err != nil {
		return nil, fmt.Errorf("sim.%w", err)
	}
	vocabulary, err := c.Sim.vocabulary()
	if err != nil {
		return nil, fmt.Errorf("sim.tokenizer: %w", err)
	}
	name := c.Name
	if name == "" {
		name = shape.ServedName()
	}
	return sim.New(sim.Config{
		Model: name, Shape: shape, Numerics: timing.Numerics(c.Sim.Numerics), TP: c.Sim.TP, Timing: model, SpeedUp: c.Sim.SpeedUp,
		BlockTokens: c.BlockTokens, ContextTokens: c.Sim.ContextTokens, Vocabulary: vocabulary,
		Tiers: sim.TierConfig{
			HostBlocks: c.Sim.HostBlocks, HostBytesPerSecond: c.Sim.HostGBytes * gigabyte,
			DiskBlocks: c.Sim.DiskBlocks, DiskBytesPerSecond: c.Sim.DiskGBytes * gigabyte,
		},
	})
}
