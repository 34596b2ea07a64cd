// Command planner runs the planner.
package main

import (
	"github.com/switchyard-llm/switchyard/libs/run"
	"github.com/switchyard-llm/switchyard/services/planner"
)

func main() { run.Main(planner.Main) }
