// Command prefillworker runs one prefill worker.
package main

import (
	"github.com/switchyard-llm/switchyard/libs/run"
	"github.com/switchyard-llm/switchyard/services/prefillworker"
)

func main() { run.Main(prefillworker.Main) }
