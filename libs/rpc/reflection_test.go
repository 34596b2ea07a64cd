package rpc_test

import (
	"slices"
	"testing"
	"time"

	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionv1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

const plannerService = "switchyard.planner.v1.Planner"

// What grpcurl does: it lists the services, then asks for the file that declares one.
func TestAServerTellsItsProtocol(t *testing.T) {
	f := serve(t, "127.0.0.1:0", time.Second, nil, nil)
	stream, err := reflectionv1.NewServerReflectionClient(f.conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(r *reflectionv1.ServerReflectionRequest) *reflectionv1.ServerReflectionResponse {
		t.Helper()
		if err := stream.Send(r); err != nil {
			t.Fatal(err)
		}
		answer, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	list := ask(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}})
	var names []string
	for _, s := range list.GetListServicesResponse().GetService() {
		names = append(names, s.GetName())
	}
	for _, want := range []string{plannerService, "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"} {
		if !slices.Contains(names, want) {
			t.Errorf("services %q lack %s", names, want)
		}
	}
	files := ask(&reflectionv1.ServerReflectionRequest{
		MessageRequest: &reflectionv1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: plannerService},
	}).GetFileDescriptorResponse().GetFileDescriptorProto()
	if !declares(t, files, "Planner", "Report") {
		t.Errorf("none of %d files declares %s with its Report", len(files), plannerService)
	}
	if err := stream.CloseSend(); err != nil {
		t.Error(err)
	}
}

// declares says whether one of the files has a service with a method.
func declares(t *testing.T, files [][]byte, service, method string) bool {
	t.Helper()
	for _, data := range files {
		var file descriptorpb.FileDescriptorProto
		if err := proto.Unmarshal(data, &file); err != nil {
			t.Fatal(err)
		}
		for _, s := range file.GetService() {
			if s.GetName() == service && slices.ContainsFunc(s.GetMethod(), func(m *descriptorpb.MethodDescriptorProto) bool { return m.GetName() == method }) {
				return true
			}
		}
	}
	return false
}

// Older clients know only the protocol's first version.
func TestAServerTellsItsProtocolToOlderClients(t *testing.T) {
	f := serve(t, "127.0.0.1:0", time.Second, nil, nil)
	stream, err := reflectionv1alpha.NewServerReflectionClient(f.conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&reflectionv1alpha.ServerReflectionRequest{MessageRequest: &reflectionv1alpha.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	if answer, err := stream.Recv(); err != nil || len(answer.GetListServicesResponse().GetService()) < 3 {
		t.Errorf("services %v, %v", answer, err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Error(err)
	}
}
