package chattemplate

import (
	"fmt"
	"strings"

	"github.com/ardanlabs/jinja"
)

// filterNames are the library's filters that a template may use. Left out are
// unique, which is quadratic, and batch, which fills up to any length. tojson is ours.
func filterNames() []string {
	return []string{
		"from_json", "fromjson", "items", "join", "default", "d", "trim", "lower", "upper", "title", "capitalize", "first", "last", "length",
		"count", "reverse", "sort", "list", "int", "float", "string", "safe", "replace", "round", "abs", "map", "select", "reject",
		"selectattr", "rejectattr", "indent", "wordcount", "escape", "e", "dictsort", "max", "min", "sum",
	}
}

type function = func(args []jinja.Value, named map[string]jinja.Value) (jinja.Value, error)

// libraryFilters gets hold of the library's filters, which it keeps as variables of
// a reserved name, so that the guard can look at what they return.
func libraryFilters() (map[string]function, error) {
	names := filterNames()
	filters := make(map[string]function, len(names))
	grab, err := jinja.Compile("{{ grab(__filter_" + strings.Join(names, ", __filter_") + ") }}")
	if err != nil {
		return nil, err
	}
	_, err = grab.RenderValues(map[string]jinja.Value{
		"grab": jinja.NewCallable("grab", func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
			for i, v := range args {
				if !v.IsCallable() {
					return v, fmt.Errorf("the Jinja library has no filter %s", names[i])
				}
				filters[names[i]] = v.AsCallable().Fn
			}
			return jinja.NewString(""), nil
		}),
	})
	filters["tojson"] = toJSON
	return filters, err
}
