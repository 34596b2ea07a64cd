package main

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// document is an OpenAPI document, as far as one is written here. Members come in this order.
type document struct {
	OpenAPI    string          `json:"openapi"`
	Info       map[string]any  `json:"info"`
	Servers    []any           `json:"servers"`
	Security   []any           `json:"security"`
	Paths      map[string]path `json:"paths"`
	Components components      `json:"components"`
}

// path has an operation for each method, in lower case.
type path map[string]*operation

type components struct {
	Parameters map[string]*parameter `json:"parameters,omitzero"`
	Headers    map[string]any        `json:"headers,omitzero"`
	Responses  map[string]*response  `json:"responses,omitzero"`
	Schemas    map[string]*schema    `json:"schemas,omitzero"`
	Security   map[string]any        `json:"securitySchemes,omitzero"`
}

type operation struct {
	ID          string               `json:"operationId"`
	Summary     string               `json:"summary,omitzero"`
	Parameters  []*parameter         `json:"parameters,omitempty"`
	RequestBody *requestBody         `json:"requestBody,omitzero"`
	Responses   map[string]*response `json:"responses"`
}

// parameter is in the path or a header, or a reference to one.
type parameter struct {
	Ref         string  `json:"$ref,omitzero"`
	Name        string  `json:"name,omitzero"`
	In          string  `json:"in,omitzero"`
	Description string  `json:"description,omitzero"`
	Required    bool    `json:"required,omitzero"`
	Schema      *schema `json:"schema,omitzero"`
}

type requestBody struct {
	Required bool             `json:"required"`
	Content  map[string]media `json:"content"`
}

// response is what an operation answers, or a reference to it.
type response struct {
	Ref         string               `json:"$ref,omitzero"`
	Description string               `json:"description,omitzero"`
	Headers     map[string]reference `json:"headers,omitempty"`
	Content     map[string]media     `json:"content,omitempty"`
}

type media struct {
	Schema *schema `json:"schema"`
}

type reference struct {
	Ref string `json:"$ref"`
}

// schema is a JSON schema. Its zero value admits everything.
type schema struct {
	Ref           string         `json:"$ref,omitzero"`
	Description   string         `json:"description,omitzero"`
	Type          any            `json:"type,omitzero"` // a string, or several
	Format        string         `json:"format,omitzero"`
	Enum          []any          `json:"enum,omitzero"`
	Const         *bool          `json:"const,omitzero"`
	Default       jsontext.Value `json:"default,omitempty"`
	Minimum       *float64       `json:"minimum,omitzero"`
	Above         *float64       `json:"exclusiveMinimum,omitzero"`
	Maximum       *float64       `json:"maximum,omitzero"`
	MinLength     *uint32        `json:"minLength,omitzero"`
	MaxLength     *uint32        `json:"maxLength,omitzero"`
	Pattern       string         `json:"pattern,omitzero"`
	MinItems      *uint32        `json:"minItems,omitzero"`
	MaxItems      *uint32        `json:"maxItems,omitzero"`
	MinProperties *uint32        `json:"minProperties,omitzero"`
	MaxProperties *uint32        `json:"maxProperties,omitzero"`
	Items         *schema        `json:"items,omitzero"`
	Names         *schema        `json:"propertyNames,omitzero"`
	Additional    *schema        `json:"additionalProperties,omitzero"`
	Properties    properties     `json:"properties,omitzero"`
	Required      []string       `json:"required,omitempty"`
	AnyOf         []*schema      `json:"anyOf,omitempty"`
}

// properties keep their order.
type properties []property

type property struct {
	name   string
	schema *schema
}

var _ json.MarshalerTo = properties(nil)

// MarshalJSONTo implements json.MarshalerTo.
func (p properties) MarshalJSONTo(to *jsontext.Encoder) error {
	if err := to.WriteToken(jsontext.BeginObject); err != nil {
		return err
	}
	for _, one := range p {
		if err := to.WriteToken(jsontext.String(one.name)); err != nil {
			return err
		}
		if err := json.MarshalEncode(to, one.schema); err != nil {
			return err
		}
	}
	return to.WriteToken(jsontext.EndObject)
}
