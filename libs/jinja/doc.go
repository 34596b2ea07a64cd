// Package jinja runs chat templates: programs in the Jinja2 language that come with a
// model's file, written by strangers, which turn a conversation into text.
//
// The dialect is that of Hugging Face's apply_chat_template: Jinja2 3.1 in its
// ImmutableSandboxedEnvironment with trim_blocks, lstrip_blocks, loop controls, the
// generation tag, and json.dumps as tojson. It has the expressions, statements, filters,
// tests, scoping rules and Python methods of that environment, down to how Python prints a
// value and what an undefined one does. Parse refuses, by name and line, what needs
// other templates or markup: include, import, extends, block, autoescape.
//
// A text knows of each of its bytes whether the template or the chat wrote it
// (Text), through every operation. Where an operation mixes both beyond telling, the
// result counts as the chat's.
//
// A template may be hostile. Limits bound the steps, memory, output, depth and time of
// one rendering; every operation pays for what it builds before it builds it, so that none
// costs out of proportion. Whatever a template is, Parse and Render neither panic nor
// overflow the stack.
//
// The package does not know what a chat or a token is; libs/chattemplate does. A
// Template is immutable and safe for concurrent use. The package starts no goroutine.
package jinja
