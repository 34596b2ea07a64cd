package sampling

import (
	"fmt"

	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// MaxTemperature is the highest temperature that is accepted, the OpenAI API's.
const MaxTemperature = 2

// FieldError says which sampling parameter is out of its range.
type FieldError struct {
	// Field is the parameter as clients spell it: temperature, top_p or top_k.
	Field string
	// Value is what it was, Want the range.
	Value, Want string
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("%s is %s, want %s", e.Field, e.Value, e.Want)
}

// Validate reports the first parameter that is out of its range, as a *FieldError.
func Validate(p sequence.Sampling) error {
	switch {
	// Written so that NaN fails.
	case !(p.Temperature >= 0 && p.Temperature <= MaxTemperature):
		return &FieldError{"temperature", fmt.Sprint(p.Temperature), fmt.Sprintf("0 to %d", MaxTemperature)}
	case !(p.TopP >= 0 && p.TopP <= 1):
		return &FieldError{"top_p", fmt.Sprint(p.TopP), "0 to 1"}
	case p.TopK < 0:
		return &FieldError{"top_k", fmt.Sprint(p.TopK), "at least 0"}
	}
	return nil
}
