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

func raise(arguments []jinja.Value, _ func(int) error) (jinja.Value, error) {
	message := "no reason given"
	if len(arguments) > 0 {
		if s, ok := arguments[0].AsString(); ok {
			message = s
		}
	}
	return jinja.Value{}, &Refused{message}
}

// strftimeBytes is what a byte of a format costs: a directive takes as long as writing so many.
const strftimeBytes = 256

func (t *Template) strftimeNow(arguments []jinja.Value, pay func(int) error) (jinja.Value, error) {
	if len(arguments) == 1 {
		if format, ok := arguments[0].AsString(); ok {
			if err := pay(strftimeBytes * len(format)); err != nil {
				return jinja.Value{}, err
			}
			return jinja.String(strftime(format, t.opts.Now())), nil
		}
	}
	return jinja.Value{}, errors.New("strftime_now: want one string")
}
