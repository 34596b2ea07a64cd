// Package config fills a struct from a YAML file, the environment and the command line.
//
// A program keeps one struct. Its defaults are in the struct when Parse is called; the
// file overrides them, the environment overrides the file, flags override both. All
// three use the same names: a field with the YAML key ack_wait inside the one with the
// key queue is
//
//	queue:
//	  ack_wait: 10s            in the file
//	SWITCHYARD_QUEUE_ACK_WAIT  in the environment
//	--queue-ack-wait           on the command line
//
// Keys come from the yaml tag (`yaml:",inline"` puts a struct's fields beside its
// siblings), the text of --help from the help tag. A leaf is a string, a bool, a number,
// a time.Duration written like 1m30s, a []string (a comma list outside the file), or
// anything that unmarshals from text.
//
// Unknown keys, flags and values of the wrong type are errors that say where and what, by
// the full name of the key (queue.ack_wait), and what was expected. What the values mean is
// the program's to check: call its Validate after Parse. The package starts no goroutine.
package config

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

// envPrefix begins the names of all variables.
const envPrefix = "SWITCHYARD_"

// Parse fills cfg, a pointer to a struct that holds its defaults, from the file named by
// --config or SWITCHYARD_CONFIG, the environment and args, the process's arguments
// without its name. After -h or --help it prints the flags on standard error and
// returns flag.ErrHelp.
func Parse(args []string, cfg any) error {
	return ParseEnv(args, os.Environ(), os.Stderr, cfg)
}

// ParseEnv is Parse with the environment ("NAME=value") and the place for the help text
// given by the caller.
func ParseEnv(args, environ []string, help io.Writer, cfg any) error {
	fields, err := Fields(cfg)
	if err != nil {
		return err
	}
	env := environment(environ)
	file, given, err := scan(args, fields, help)
	if err != nil {
		return err
	}
	if file == "" {
		file = env[envPrefix+"CONFIG"]
	}
	if file != "" {
		if err := Load(file, cfg); err != nil {
			return err
		}
	}
	for _, f := range fields {
		if text, ok := env[f.Env]; ok {
			if err := f.set(text); err != nil {
				return fmt.Errorf("environment %s=%q: %w", f.Env, text, err)
			}
		}
	}
	for _, g := range given {
		if err := g.field.set(g.text); err != nil {
			return fmt.Errorf("flag --%s=%q: %w", g.field.Flag, g.text, err)
		}
	}
	return nil
}

// setting is a flag as it was given. Flags are scanned first, for --config, and applied last.
type setting struct {
	field Field
	text  string
}

func scan(args []string, fields []Field, help io.Writer) (file string, given []setting, err error) {
	set := flag.NewFlagSet("", flag.ContinueOnError)
	set.SetOutput(io.Discard) // errors are returned, and the help text is our own
	set.StringVar(&file, "config", "", "")
	for _, f := range fields {
		record := func(text string) error {
			given = append(given, setting{f, text})
			return nil
		}
		if f.isBool() {
			set.BoolFunc(f.Flag, "", record)
		} else {
			set.Func(f.Flag, "", record)
		}
	}
	switch err := set.Parse(dashed(args)); {
	case errors.Is(err, flag.ErrHelp):
		usage(help, fields)
		return "", nil, flag.ErrHelp
	case err != nil:
		return "", nil, fmt.Errorf("command line: %w", err)
	}
	if rest := set.Args(); len(rest) > 0 {
		return "", nil, fmt.Errorf("command line: unexpected argument %q, want only flags", rest[0])
	}
	return file, given, nil
}

// dashed lets a flag be written with the underscores of its key as well.
func dashed(args []string) []string {
	out := make([]string, len(args))
	for i, a := range args {
		if strings.HasPrefix(a, "-") {
			name, value, hasValue := strings.Cut(a, "=")
			a = strings.ReplaceAll(name, "_", "-")
			if hasValue {
				a += "=" + value
			}
		}
		out[i] = a
	}
	return out
}

func environment(environ []string) map[string]string {
	env := make(map[string]string)
	for _, e := range environ {
		if name, value, ok := strings.Cut(e, "="); ok && strings.HasPrefix(name, envPrefix) {
			env[name] = value
		}
	}
	return env
}

func usage(w io.Writer, fields []Field) {
	fmt.Fprintf(w, "Flags, or the same as %s<NAME> in the environment or as keys of the file:\n", envPrefix)
	fmt.Fprintf(w, "  --config\n        a YAML file of the keys below\n")
	for _, f := range fields {
		fmt.Fprintf(w, "  --%s", f.Flag)
		if f.Default != "" {
			fmt.Fprintf(w, " (default %s)", f.Default)
		}
		fmt.Fprintf(w, "\n        %s\n", f.Help)
	}
}
