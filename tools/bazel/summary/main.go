// Command summary reads what Bazel reported of a build (the file that --build_event_json_file names) and prints the line
// that ends tools/test: "N passed, N failed". One test target, or one other target that does not build, counts as one.
// It ends with status 1 if anything failed.
package main

import (
	"fmt"
	"os"
)

func main() {
	failed, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "summary:", err)
	}
	if err != nil || failed > 0 {
		os.Exit(1)
	}
}

// run prints the summary and returns the number of failures.
func run(args []string) (failed int, err error) {
	if len(args) != 1 {
		return 0, fmt.Errorf("want one argument, the file of build events; got %d", len(args))
	}
	events, err := os.Open(args[0])
	if err != nil {
		return 0, err
	}
	defer events.Close()
	result, err := read(events)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", args[0], err)
	}
	for _, name := range result.failed {
		fmt.Println("failed:", name)
	}
	fmt.Printf("%d passed, %d failed\n", result.passed, len(result.failed))
	return len(result.failed), nil
}
