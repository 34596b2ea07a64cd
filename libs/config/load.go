package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

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
	fields, err := Fields(cfg)
	if err != nil {
		return err
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(cfg); err != nil && !errors.Is(err, io.EOF) {
		return explain(file, data, fields, err)
	}
	if err := inspect(file, data, fields); err != nil {
		return err
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: want one YAML document, found a second", file)
	}
	return nil
}
