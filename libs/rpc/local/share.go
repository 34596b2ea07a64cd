package local

import (
	"reflect"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// sharer passes messages on without copying what hangs below them.
type sharer struct {
	open sync.Map // reflect.Type of a message struct → whether its fields are all exported
}

// share makes dst equal to src; the two have their submessages and lists in common.
func (s *sharer) share(dst, src any) error {
	to, ok := dst.(proto.Message)
	from, same := src.(proto.Message)
	if !ok || !same {
		return status.Errorf(codes.Internal, "cannot pass %T as %T: want messages", src, dst)
	}
	if reflect.TypeOf(dst) != reflect.TypeOf(src) {
		return status.Errorf(codes.Internal, "cannot pass %T as %T: want equal types", src, dst)
	}
	source := from.ProtoReflect()
	if s.isOpen(source) {
		shareFields(reflect.ValueOf(dst).Elem(), reflect.ValueOf(src).Elem())
	} else {
		shareReflected(to, source)
	}
	if unknown := source.GetUnknown(); len(unknown) > 0 {
		to.ProtoReflect().SetUnknown(unknown)
	}
	return nil
}

// isOpen tells whether all of a message's fields are exported fields of its struct, as in
// protobuf's open API.
func (s *sharer) isOpen(m protoreflect.Message) bool {
	t := reflect.TypeOf(m.Interface()).Elem()
	if open, ok := s.open.Load(t); ok {
		return open.(bool)
	}
	want, exported := 0, 0
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		if oneof := fields.Get(i).ContainingOneof(); oneof == nil || oneof.IsSynthetic() {
			want++
		}
	}
	oneofs := m.Descriptor().Oneofs()
	for i := range oneofs.Len() {
		if !oneofs.Get(i).IsSynthetic() {
			want++
		}
	}
	for _, field := range reflect.VisibleFields(t) {
		if field.IsExported() {
			exported++
		}
	}
	s.open.Store(t, want == exported)
	return want == exported
}

// shareFields is the quick way: several times cheaper than by protobuf's reflection, and
// this is done for every token.
func shareFields(to, from reflect.Value) {
	for i := range to.NumField() {
		if field := to.Field(i); field.CanSet() {
			field.Set(from.Field(i))
		}
	}
}

func shareReflected(to proto.Message, source protoreflect.Message) {
	proto.Reset(to)
	target := to.ProtoReflect()
	source.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		target.Set(field, value)
		return true
	})
}
