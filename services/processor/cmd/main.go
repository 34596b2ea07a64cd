// Command processor runs one processor.
package main

import (
	"github.com/switchyard-llm/switchyard/libs/run"
	"github.com/switchyard-llm/switchyard/services/processor"
)

func main() { run.Main(processor.Main) }
