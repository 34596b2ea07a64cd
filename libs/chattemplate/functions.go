package chattemplate

import (
	"errors"

	"github.com/switchyard-llm/switchyard/libs/jinja"
)

// functions are those that Hugging Face adds to Jinja's.
func (t *Template) functions() []jinja.Variable {
	return []jinja.Variable{
		{Name: "raise_exception", Value: jinja.Func("raise_exception", raise)},
		{Name: "strftime_now", Value: jinja.Func("strftime_now", t.strftimeNow)},
	}
}

func raise(arguments []jinja.Value) (jinja.Value, error) {
	message := "no reason given"
	if len(arguments) > 0 {
		if s, ok := arguments[0].AsString(); ok {
			message = s
		}
	}
	return jinja.Value{}, &Refused{message}
}

func (t *Template) strftimeNow(arguments []jinja.Value) (jinja.Value, error) {
	if len(arguments) == 1 {
		if format, ok := arguments[0].AsString(); ok {
			return jinja.String(strftime(format, t.opts.Now())), nil
		}
	}
	return jinja.Value{}, errors.New("strftime_now: want one string")
}
