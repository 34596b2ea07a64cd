// Package openai is the OpenAI dialect: it reads the bodies of chat and text completion
// requests into generation.v1.Request, and writes answers, stream events and errors as an
// OpenAI client expects them.
//
// It is pure: no I/O, no clock, no goroutines, no HTTP. The services/frontend package
// around it owns connections and calls.
//
// How a request is read. Every parameter is one of three: built; known and not built yet,
// then only its default or null is accepted; or unknown, then its name goes into Ignored,
// or it is refused where there is none. Nothing else is ignored but what changes no answer
// (user, metadata and the like). The ranges of values are checked in one place for requests
// in JSON and typed ones. Members of inner objects are known or refused. A member that
// occurs twice in one object is refused, and so are invalid UTF-8 and anything after the
// object. What is refused is not read any further, so a deeply nested value costs nothing.
package openai
