// Command decodeworker runs one decode worker.
package main

import (
	"github.com/switchyard-llm/switchyard/libs/run"
	"github.com/switchyard-llm/switchyard/services/decodeworker"
)

func main() { run.Main(decodeworker.Main) }
