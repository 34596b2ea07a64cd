package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/switchyard-llm/switchyard/libs/gpu"
	"github.com/switchyard-llm/switchyard/libs/nixl/link"
)

// gpusCmd shows this machine's GPUs and what each two of them share.
type gpusCmd struct {
	JSON bool `help:"Print one JSON object a line: each GPU, then each pair." name:"json"`
}

// gpuMachine is what the command asks of the driver.
type gpuMachine interface {
	Devices() ([]gpu.Device, error)
	Sample(uuid string) (gpu.Sample, error)
	Path(a, b string) (gpu.Path, error)
	Close(ctx context.Context) error
}

// driverTimeout bounds the wait for a driver that hangs.
const driverTimeout = 10 * time.Second

// Run implements the command.
func (c *gpusCmd) Run(ctx context.Context, out io.Writer) error {
	m, err := gpu.Open(gpu.Options{})
	if err != nil {
		return err
	}
	return c.show(ctx, m, out)
}

func (c *gpusCmd) show(ctx context.Context, m gpuMachine, out io.Writer) (err error) {
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), driverTimeout)
		defer cancel()
		err = errors.Join(err, m.Close(ctx))
	}()
	devices, err := m.Devices()
	if err != nil {
		return err
	}
	gpus, err := sampled(m, devices)
	if err != nil {
		return err
	}
	pairs, err := pairsOf(m, devices)
	if err != nil {
		return err
	}
	if c.JSON {
		return printLines(out, gpus, pairs)
	}
	return printGPUs(out, gpus, pairs)
}

// gpuNow is a GPU as it is now.
type gpuNow struct {
	gpu.Device
	Now gpu.Sample
}

func sampled(m gpuMachine, devices []gpu.Device) ([]gpuNow, error) {
	all := make([]gpuNow, len(devices))
	for i, d := range devices {
		now, err := m.Sample(d.UUID)
		if err != nil {
			return nil, err
		}
		all[i] = gpuNow{d, now}
	}
	return all, nil
}

// gpuPair is what a transfer between two GPUs, of two processes, goes over.
type gpuPair struct {
	A, B           int
	Class          string
	BytesPerSecond float64 // what the class is taken for before it is measured
}

func pairsOf(m gpuMachine, devices []gpu.Device) (pairs []gpuPair, err error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	place := func(d gpu.Device, process string) gpu.Place {
		return gpu.Place{Host: host, Process: process, GPU: d.UUID, NUMANode: d.NUMANode, Fabric: d.Fabric}
	}
	for i, a := range devices {
		for _, b := range devices[i+1:] {
			path, err := m.Path(a.UUID, b.UUID)
			if err != nil {
				return nil, err
			}
			class := gpu.LinkClass(place(a, "one"), place(b, "other"), path)
			pairs = append(pairs, gpuPair{a.Index, b.Index, class.String(), startOf(class)})
		}
	}
	return pairs, nil
}

func startOf(c link.Class) float64 { return c.Start().BytesPerSecond }

func printLines(out io.Writer, gpus []gpuNow, pairs []gpuPair) error {
	encoder := json.NewEncoder(out)
	for _, g := range gpus {
		if err := encoder.Encode(g); err != nil {
			return err
		}
	}
	for _, p := range pairs {
		if err := encoder.Encode(p); err != nil {
			return err
		}
	}
	return nil
}

func printGPUs(out io.Writer, gpus []gpuNow, pairs []gpuPair) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "GPU\tNAME\tPCI\tMEMORY USED\tOF\tBUSY\tTEMPERATURE\tNUMA NODE")
	for _, g := range gpus {
		fmt.Fprintf(w, "%d\t%s\t%s\t%.1f GiB\t%.1f GiB\t%s\t%s\t%s\n", g.Index, g.Name, g.PCI,
			gib(g.Now.MemoryUsedBytes), gib(g.Now.MemoryTotalBytes),
			known(g.Now.Utilisation, func(u gpu.Utilisation) string { return fmt.Sprintf("%d %%", u.GPUPercent) }),
			known(g.Now.TemperatureCelsius, func(t uint32) string { return fmt.Sprintf("%d °C", t) }),
			known(g.NUMANode, func(n int) string { return fmt.Sprint(n) }))
	}
	if len(pairs) > 0 {
		fmt.Fprintln(w, "\nPAIR\tLINK\tTAKEN FOR")
	}
	for _, p := range pairs {
		fmt.Fprintf(w, "%d, %d\t%s\t%.0f GB/s\n", p.A, p.B, p.Class, p.BytesPerSecond/1e9)
	}
	return w.Flush()
}

func gib(bytes uint64) float64 { return float64(bytes) / (1 << 30) }

// known shows a reading that not every GPU has.
func known[T any](r gpu.Reading[T], text func(T) string) string {
	if !r.Known {
		return "-"
	}
	return text(r.Value)
}
