package frontend_test

import (
	"maps"
	"strings"
)

// samples makes values of the schemas of a document.
type samples struct{ doc map[string]any }

// at finds what a reference names.
func (s samples) at(ref string) map[string]any {
	at := s.doc
	for name := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		at = at[name].(map[string]any)
	}
	return at
}

// inside gives values that a schema admits, those at its bounds among them.
func (s samples) inside(schema map[string]any) []any {
	if ref, ok := schema["$ref"].(string); ok {
		return s.inside(s.at(ref))
	}
	var all []any
	if union, ok := schema["anyOf"].([]any); ok {
		for _, one := range union {
			all = append(all, s.inside(one.(map[string]any))...)
		}
		return all
	}
	if only, ok := schema["const"]; ok {
		return []any{only}
	}
	if values, ok := schema["enum"].([]any); ok {
		return values
	}
	for _, kind := range kindsOf(schema) {
		all = append(all, s.ofKind(kind, schema)...)
	}
	return all
}

func (s samples) ofKind(kind string, schema map[string]any) []any {
	switch kind {
	case "null":
		return []any{nil}
	case "boolean":
		return []any{true, false}
	case "string":
		return []any{"x"}
	case "integer", "number":
		return numbers(schema)
	case "array":
		var all []any
		for _, item := range s.inside(schema["items"].(map[string]any)) {
			all = append(all, []any{item})
		}
		return all
	}
	return s.objects(schema)
}

func numbers(schema map[string]any) []any {
	all := []any{1}
	for _, bound := range []string{"minimum", "maximum"} {
		if v, ok := schema[bound]; ok {
			all = append(all, v)
		}
	}
	return all
}

// objects are one with all members, and for each value of a member one with that.
func (s samples) objects(schema map[string]any) []any {
	if value, ok := schema["additionalProperties"].(map[string]any); ok {
		var all []any
		for _, v := range s.inside(value) {
			all = append(all, map[string]any{"1": v})
		}
		return all
	}
	properties, _ := schema["properties"].(map[string]any)
	full := map[string]any{}
	for name, property := range properties {
		full[name] = s.inside(property.(map[string]any))[0]
	}
	all := []any{full}
	for name, property := range properties {
		for _, v := range s.inside(property.(map[string]any)) {
			one := maps.Clone(full)
			one[name] = v
			all = append(all, one)
		}
	}
	return all
}

// outside gives values of the right type that a schema just does not admit.
func (s samples) outside(schema map[string]any) []any {
	if ref, ok := schema["$ref"].(string); ok {
		return s.outside(s.at(ref))
	}
	var all []any
	union, _ := schema["anyOf"].([]any)
	for _, one := range union {
		all = append(all, s.outside(one.(map[string]any))...)
	}
	if v, ok := schema["minimum"].(float64); ok {
		all = append(all, v-1)
	}
	if v, ok := schema["exclusiveMinimum"]; ok {
		all = append(all, v)
	}
	if v, ok := schema["maximum"].(float64); ok {
		all = append(all, v+1)
	}
	if schema["minLength"] != nil {
		all = append(all, "")
	}
	if schema["minItems"] != nil {
		all = append(all, []any{})
	}
	if values, ok := schema["enum"].([]any); ok {
		if _, text := values[0].(string); text {
			all = append(all, "?")
		} else {
			all = append(all, true)
		}
	}
	return append(all, s.outsideOfElements(schema)...)
}

// outsideOfElements gives arrays and objects that are too long, or of which an element is outside.
func (s samples) outsideOfElements(schema map[string]any) []any {
	var all []any
	if items, ok := schema["items"].(map[string]any); ok {
		for _, v := range s.outside(items) {
			all = append(all, []any{v})
		}
		if most, ok := schema["maxItems"].(float64); ok {
			long := make([]any, int(most)+1)
			for i := range long {
				long[i] = s.inside(items)[0]
			}
			all = append(all, long)
		}
	}
	if value, ok := schema["additionalProperties"].(map[string]any); ok {
		for _, v := range s.outside(value) {
			all = append(all, map[string]any{"1": v})
		}
	}
	return all
}

func propertyOf(schema map[string]any, name string) map[string]any {
	return schema["properties"].(map[string]any)[name].(map[string]any)
}

// kindsOf are the types that a schema admits.
func kindsOf(schema map[string]any) []string {
	if one, ok := schema["type"].(string); ok {
		return []string{one}
	}
	return textsOf(schema["type"])
}

func textsOf(array any) []string {
	var all []string
	list, _ := array.([]any)
	for _, v := range list {
		all = append(all, v.(string))
	}
	return all
}
