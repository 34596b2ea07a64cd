package frontend

import (
	_ "embed"
	"net/http"
)

// document is the OpenAPI document of the paths that are served here. tools/proto/generate writes it.
//
//go:embed openapi.json
var document string

// openAPI gives the document.
func openAPI(w http.ResponseWriter, _ *http.Request) { writeProbe(w, http.StatusOK, document) }
