package frontend

import (
	"net/http"
	"runtime/debug"
	"sync"

	"github.com/switchyard-llm/switchyard/services/frontend/openai"
)

// probe is what answers a path that is no part of OpenAI's API; nil for others.
func (e *edge) probe(path string) http.HandlerFunc {
	switch path {
	case "/health":
		return e.health
	case "/ready":
		return e.ready
	case "/version":
		return version
	case "/openapi.json":
		return openAPI
	case "/metrics":
		if e.metrics != nil {
			return e.metrics.ServeHTTP
		}
	}
	return nil
}

// serveProbe answers GET and HEAD, and refuses other methods.
func serveProbe(w http.ResponseWriter, r *http.Request, probe http.HandlerFunc) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		probe(w, r)
		return
	}
	w.Header().Set("Allow", allowed(http.MethodGet))
	w.Header().Set("Content-Type", openai.ContentTypeJSON)
	w.WriteHeader(http.StatusMethodNotAllowed)
	_, _ = w.Write(wrongMethod(r, http.MethodGet).AppendJSON(nil)) // whoever left needs no answer
}

// health answers 200 once a model could be asked for, and 503 again during the drain.
func (e *edge) health(w http.ResponseWriter, _ *http.Request) { writeState(w, e.f.ready.Load()) }

// ready answers 200 while a model can be asked for: it asks the processor.
func (e *edge) ready(w http.ResponseWriter, r *http.Request) {
	writeState(w, e.f.ready.Load() && e.f.hasModel(r.Context()))
}

func writeState(w http.ResponseWriter, ok bool) {
	if ok {
		writeProbe(w, http.StatusOK, `{"status":"ok"}`)
		return
	}
	writeProbe(w, http.StatusServiceUnavailable, `{"status":"unavailable"}`)
}

func writeProbe(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", openai.ContentTypeJSON)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body)) // a prober that left needs no answer
}

// version tells what was built.
func version(w http.ResponseWriter, _ *http.Request) {
	writeProbe(w, http.StatusOK, string(openai.AppendVersion(nil, buildVersion())))
}

// buildVersion is that of the main module, or else the revision it was built from.
var buildVersion = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return versionOf(&debug.BuildInfo{})
	}
	return versionOf(info)
})

func versionOf(info *debug.BuildInfo) string {
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	revision, changed := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "+changed"
		}
	}
	if revision == "" {
		return "unknown"
	}
	return revision + changed
}
