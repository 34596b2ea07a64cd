package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Load fills cfg, a pointer to a struct, from a YAML file. What the file does not name
// stays as it is; an empty file changes nothing. Errors name file, line and key.
func Load(file string, cfg any) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	return decode(file, data, cfg)
}

func decode(file string, data []byte, cfg any) error {
	if _, err := Fields(cfg); err != nil {
		return err
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(cfg); err != nil && !errors.Is(err, io.EOF) {
		return explain(file, err)
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: want one YAML document, found a second", file)
	}
	return nil
}

// unknownKey is how the YAML package reports a key that no field has.
var unknownKey = regexp.MustCompile(`^line (\d+): field (.*) not found in type .*$`)

// explain puts the file and the line in front and says what was expected. All faults of
// a file are told at once.
func explain(file string, err error) error {
	var typed *yaml.TypeError
	if !errors.As(err, &typed) {
		return fmt.Errorf("%s: %w", file, err)
	}
	faults := make([]string, len(typed.Errors))
	for i, fault := range typed.Errors {
		if m := unknownKey.FindStringSubmatch(fault); m != nil {
			faults[i] = fmt.Sprintf("%s:%s: unknown key %q", file, m[1], m[2])
			continue
		}
		line, text, _ := strings.Cut(strings.TrimPrefix(fault, "line "), ": ")
		faults[i] = fmt.Sprintf("%s:%s: %s", file, line, text)
	}
	return errors.New(strings.Join(faults, "; "))
}
