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
	plans sync.Map // reflect.Type of a message struct → its plan
}

// plan is how messages of a type are passed on.
type plan struct {
	// fields are the indices of the exported fields. Setting them is several times cheaper than
	// by protobuf's reflection, and this is done for every token.
	fields []int
	// open tells that these are all, as in protobuf's open API.
	open bool
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
	if p := s.plan(source, src); p.open {
		target, given := reflect.ValueOf(dst).Elem(), reflect.ValueOf(src).Elem()
		for _, i := range p.fields {
			target.Field(i).Set(given.Field(i))
		}
	} else {
		shareReflected(to, source)
	}
	if unknown := source.GetUnknown(); len(unknown) > 0 {
		to.ProtoReflect().SetUnknown(unknown)
	}
	return nil
}

func (s *sharer) plan(m protoreflect.Message, src any) *plan {
	t := reflect.TypeOf(src).Elem()
	if p, ok := s.plans.Load(t); ok {
		return p.(*plan)
	}
	p, want := &plan{}, 0
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
	for i := range t.NumField() {
		if t.Field(i).IsExported() {
			p.fields = append(p.fields, i)
		}
	}
	p.open = want == len(p.fields)
	s.plans.Store(t, p)
	return p
}

func shareReflected(to proto.Message, source protoreflect.Message) {
	proto.Reset(to)
	target := to.ProtoReflect()
	source.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		target.Set(field, value)
		return true
	})
}
