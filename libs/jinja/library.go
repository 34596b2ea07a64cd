package jinja

import "sync"

// builtins are all that the language has by name.
type builtins struct {
	filters, tests                       map[string]*builtin
	strMethods, dictMethods, listMethods map[string]*builtin
	functions                            map[string]Value
}

var (
	libraryOnce  sync.Once
	libraryValue builtins
)

// library fills the tables when they are first needed. They cannot be variables with
// values: some functions in them look into them.
func library() *builtins {
	libraryOnce.Do(func() {
		libraryValue = builtins{filters(), tests(), strMethods(), dictMethods(), listMethods(), functions()}
	})
	return &libraryValue
}

func filterByName(name string) *builtin { return library().filters[name] }
func testByName(name string) *builtin   { return library().tests[name] }
func stringMethod(name string) *builtin { return library().strMethods[name] }
func dictMethod(name string) *builtin   { return library().dictMethods[name] }
func listMethod(name string) *builtin   { return library().listMethods[name] }

func tupleMethod(name string) *builtin {
	if name == "copy" {
		return nil
	}
	return listMethod(name)
}
