package main

import (
	"bytes"
	"os"
	"testing"
)

func TestTheAssemblyIsWhatTheGeneratorWrites(t *testing.T) {
	have, err := os.ReadFile("../kernels_amd64.s")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, generate()) {
		t.Fatal("kernels_amd64.s is not what gen writes: run go generate in libs/engine/cpu/kernel")
	}
}
