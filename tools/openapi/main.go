// Command openapi writes the OpenAPI document of the HTTP API from the descriptors that protoc makes
// of the .proto files, with their comments. tools/proto/generate calls it.
//
//	go run ./tools/openapi DESCRIPTORS DOCUMENT
//
// Paths come from google.api.http, the JSON of an RPC from switchyard.openai.v1.bodies, and schemas
// from the messages of that package; its schema.proto has the rules. What no RPC tells stands in
// base.json: the probes, the headers, the answers to failed requests.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/switchyard-llm/switchyard/libs/run"
)

func main() { run.Main(write) }

func write(_ context.Context, args []string) error {
	if len(args) != 2 {
		return errors.New("want the file of descriptors and that of the document")
	}
	files, err := read(args[0])
	if err != nil {
		return fmt.Errorf("read %s: %w", args[0], err)
	}
	text, err := generate(files)
	if err != nil {
		return err
	}
	if have, err := os.ReadFile(args[1]); err == nil && bytes.Equal(have, text) {
		return nil // whoever builds with it need not build again
	}
	return os.WriteFile(args[1], text, 0o644)
}

func read(path string) (*protoregistry.Files, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(data, &set); err != nil {
		return nil, err
	}
	return protodesc.NewFiles(&set)
}
