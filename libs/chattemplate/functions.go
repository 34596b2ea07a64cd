package chattemplate

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/ardanlabs/jinja"
)

func raise(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	message := "no reason given"
	if len(args) > 0 && args[0].IsString() {
		message = args[0].AsString()
	}
	return jinja.Undefined(), &Refused{message}
}

func (g *guard) strftimeNow(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	if len(args) != 1 || !args[0].IsString() {
		return jinja.Undefined(), errors.New("strftime_now: want one string")
	}
	return jinja.NewString(strftime(args[0].AsString(), g.now())), nil
}

// rangeOf is Python's range, as a list.
func rangeOf(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	if len(args) < 1 || len(args) > 3 {
		return jinja.Undefined(), fmt.Errorf("range: %d arguments, want 1 to 3", len(args))
	}
	n := [3]int64{0, 0, 1} // start, stop, step
	for i, v := range args {
		if !v.IsInt() {
			return jinja.Undefined(), fmt.Errorf("range: argument %d is %s, want an integer", i+1, v)
		}
		n[i] = v.AsInt()
	}
	if len(args) == 1 {
		n[0], n[1] = 0, n[0]
	}
	if n[2] == 0 || n[2] == math.MinInt64 {
		return jinja.Undefined(), errors.New("range: the step must not be 0")
	}
	var items []jinja.Value
	for i := n[0]; n[2] > 0 && i < n[1] || n[2] < 0 && i > n[1]; i += n[2] {
		if len(items) == maxValueNodes {
			return jinja.Undefined(), exceeded("a range of more than %d", maxValueNodes)
		}
		items = append(items, jinja.NewInt(i))
	}
	return jinja.NewList(items), nil
}

// newDict is dict and namespace: the names of its keyword arguments, which adapt
// put there, then perhaps a dict to copy.
func newDict(args []jinja.Value, named map[string]jinja.Value) (jinja.Value, error) {
	v := jinja.NewDict()
	d := v.AsDict()
	if len(args) > 1 && args[1].IsDict() {
		for _, key := range args[1].AsDict().Keys {
			d.Set(key, args[1].AsDict().Data[key])
		}
	}
	if len(args) == 0 || !args[0].IsString() {
		return v, nil
	}
	for name := range strings.SplitSeq(args[0].AsString(), ",") {
		if value, ok := named[name]; ok {
			d.Set(name, value)
		}
	}
	return v, nil
}
