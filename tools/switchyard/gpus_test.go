package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/gpu"
)

// twoGPUs are a machine with two GPUs behind one PCIe switch.
type twoGPUs struct{ closed bool }

func (*twoGPUs) Devices() ([]gpu.Device, error) {
	return []gpu.Device{{Index: 0, UUID: "GPU-a", Name: "H100", PCI: "0000:17:00.0", NUMANode: gpu.Known(1)}, {Index: 1, UUID: "GPU-b", Name: "H100"}}, nil
}

func (*twoGPUs) Sample(uuid string) (gpu.Sample, error) {
	if uuid == "GPU-b" {
		return gpu.Sample{MemoryTotalBytes: 80 << 30}, nil
	}
	return gpu.Sample{MemoryTotalBytes: 80 << 30, MemoryUsedBytes: 20 << 30, Utilisation: gpu.Known(gpu.Utilisation{GPUPercent: 42})}, nil
}

func (*twoGPUs) Path(a, b string) (gpu.Path, error) {
	if a != "GPU-a" || b != "GPU-b" {
		return gpu.Path{}, errors.New("no such pair")
	}
	return gpu.Path{Peer: true, Common: gpu.LevelSwitch}, nil
}

func (m *twoGPUs) Close(context.Context) error { m.closed = true; return nil }

func TestGPUsAndTheirLinksAreShown(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		var out bytes.Buffer
		m := &twoGPUs{}
		if err := (&gpusCmd{JSON: asJSON}).show(t.Context(), m, &out); err != nil {
			t.Fatal(err)
		}
		wants := []string{"H100", "0000:17:00.0", "20.0 GiB", "42 %", "PCIe switch"}
		if asJSON {
			wants = []string{`"UUID":"GPU-a"`, `"MemoryUsedBytes":21474836480`, `"Class":"PCIe switch"`}
		}
		for _, want := range wants {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%q is not in:\n%s", want, out.String())
			}
		}
		if !m.closed {
			t.Error("the driver was not let go of")
		}
	}
}

func TestWithoutADriverGPUsSaysSo(t *testing.T) {
	code, out, message := run(t, "gpus")
	if code == 0 { // there is one here
		t.Log(out)
		return
	}
	if code != 1 || !strings.Contains(message, "no NVIDIA driver") || strings.Count(message, "\n") != 1 {
		t.Errorf("code %d: %q", code, message)
	}
}
