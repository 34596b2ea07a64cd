// Command frontend runs the frontend.
package main

import (
	"github.com/switchyard-llm/switchyard/libs/run"
	"github.com/switchyard-llm/switchyard/services/frontend"
)

func main() { run.Main(frontend.Main) }
