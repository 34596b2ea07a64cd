"""Answers against OpenAI's published schemas, with llm-comply: its own cases for chats, and its checker for all else.

llm-comply posts a request, checks the answer with jsonschema against the OpenAPI document of OpenAI that it carries, and then
against rules of its own; some of those only warn, which counts as an error here. Of its cases for chats, left out are
chat-tool-calling (tools are not built), chat-image-input (models are of text) and chat-reasoning-summary (its model reasons).
Its cases of other APIs (Responses, Anthropic, Google) are of none that is served.
"""

import dataclasses
import json
import pathlib
import urllib.error
import urllib.request

import jsonschema
import llm_comply
from llm_comply.config import ComplianceConfig
from llm_comply.runner import TestRunner
from llm_comply.schema import SpecLoader
from llm_comply.tests import get_tests

from runner import main, scenario

PUBLISHED = pathlib.Path(llm_comply.__file__).parent / "specs" / "openai_chat.json"
QUESTION = [{"role": "user", "content": "Name three colors of the rainbow."}]


def run_case(server, case):
    """At temperature 0, for the cases want an answer that ends by itself."""
    (test,) = [t for t in get_tests("openai-chat") if t.id == case]
    build = test.build_request
    test = dataclasses.replace(test, build_request=lambda cfg: build(cfg) | {"temperature": 0})
    config = ComplianceConfig(base_url=server.base_url, api_key="none", model=server.model)
    result = TestRunner(config, [test], SpecLoader(str(PUBLISHED))).run_one(test)
    assert result.status.value == "passed", result.errors
    assert not result.warnings, result.warnings


@scenario
def chat_basic_response(server):
    run_case(server, "chat-basic-response")


@scenario
def chat_system_prompt(server):
    run_case(server, "chat-system-prompt")


@scenario
def chat_multi_turn(server):
    run_case(server, "chat-multi-turn")


@scenario
def chat_streaming_response(server):
    run_case(server, "chat-streaming-response")


@scenario
def chat_streaming_usage(server):
    run_case(server, "chat-streaming-usage")


@scenario
def chat_error_handling(server):
    run_case(server, "chat-error-handling")


@scenario
def all_cases_are_known(server):
    """A newer llm-comply may have more."""
    left_out = {"chat-tool-calling", "chat-image-input", "chat-reasoning-summary"}
    run = {
        "chat-basic-response",
        "chat-system-prompt",
        "chat-multi-turn",
        "chat-streaming-response",
        "chat-streaming-usage",
        "chat-error-handling",
    }
    assert {t.id for t in get_tests("openai-chat")} == left_out | run


# What it has no cases for.


def nullable(schema):
    """What OpenAPI 3.0 says of null, as JSON Schema; llm-comply's own loader leaves it out of enums and references."""
    if isinstance(schema, list):
        return [nullable(s) for s in schema]
    if not isinstance(schema, dict):
        return schema
    out = {k: nullable(v) for k, v in schema.items() if k != "nullable"}
    return {"anyOf": [out, {"type": "null"}]} if schema.get("nullable") is True else out


COMPONENTS = {"components": nullable(json.loads(PUBLISHED.read_text())["components"])}


def faults(answer, schema):
    validator = jsonschema.Draft202012Validator({"$ref": f"#/components/schemas/{schema}"} | COMPONENTS)
    return [f"{'.'.join(map(str, e.absolute_path))}: {e.message}" for e in validator.iter_errors(answer)]


def conforms(answer, schema):
    errors = faults(answer, schema)
    assert not errors, (schema, errors, answer)


def ask(server, path, **body):
    return server.post(path, {"model": server.model, "temperature": 0, "max_tokens": 6} | body)


def events(server, path, **body):
    body = {"model": server.model, "temperature": 0, "max_tokens": 6, "stream": True, "stream_options": {"include_usage": True}} | body
    request = urllib.request.Request(server.root + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        lines = [line[6:] for line in answer.read().decode().split("\n") if line.startswith("data: ")]
    assert lines.pop() == "[DONE]"
    return [json.loads(line) for line in lines]


@scenario
def schema_of_chats(server):
    conforms(ask(server, "/v1/chat/completions", messages=QUESTION), "CreateChatCompletionResponse")


@scenario
def schema_of_chats_with_n_and_logprobs(server):
    for more in ({"logprobs": True}, {"logprobs": True, "top_logprobs": 3, "n": 2}):
        conforms(ask(server, "/v1/chat/completions", messages=QUESTION, **more), "CreateChatCompletionResponse")


@scenario
def schema_of_chat_chunks(server):
    for event in events(server, "/v1/chat/completions", messages=QUESTION):
        conforms(event, "CreateChatCompletionStreamResponse")


@scenario
def schema_of_chat_chunks_with_logprobs(server):
    for event in events(server, "/v1/chat/completions", messages=QUESTION, n=2, logprobs=True, top_logprobs=2):
        conforms(event, "CreateChatCompletionStreamResponse")


@scenario
def schema_of_completions(server):
    conforms(ask(server, "/v1/completions", prompt="One, two,"), "CreateCompletionResponse")


@scenario
def schema_of_completions_with_n_and_logprobs(server):
    conforms(ask(server, "/v1/completions", prompt=["One, two,", "Once"], n=2, logprobs=3), "CreateCompletionResponse")


@scenario
def schema_of_models(server):
    listed = json.loads(server.get("/v1/models"))
    conforms(listed, "ListModelsResponse")
    conforms(json.loads(server.get(f"/v1/models/{server.model}")), "Model")


@scenario
def schema_of_errors(server):
    for path, body in (
        ("/v1/chat/completions", {"messages": QUESTION, "temperature": 3}),
        ("/v1/chat/completions", {"messages": QUESTION, "model": "gpt-9"}),
        ("/v1/completions", {}),
        ("/v1/embeddings", {}),
        ("/v1/nothing", {}),
    ):
        try:
            ask(server, path, **body)
        except urllib.error.HTTPError as e:
            conforms(json.load(e), "ErrorResponse")
        else:
            raise AssertionError(f"no error of {path} with {body}")


@scenario
def the_checker_can_fail(server):
    answer = ask(server, "/v1/chat/completions", messages=QUESTION)
    del answer["choices"][0]["logprobs"]
    assert faults(answer, "CreateChatCompletionResponse") == ["choices.0: 'logprobs' is a required property"]


if __name__ == "__main__":
    main()
