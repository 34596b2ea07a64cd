"""Errors, as the library's classes, and clients that do not wait."""

import asyncio
import time

import openai

from openai_calls import GREEDY, LONG, QUESTION, chat, complete, connect, raised
from runner import scenario


@scenario
def error_bad_value(server):
    e = raised(openai.BadRequestError, chat, server, temperature=3)
    assert (
        e.status_code == 400 and e.param == "temperature" and e.code == "decimal_above_max_value" and e.type == "invalid_request_error"
    ), e.body
    assert "temperature" in e.message
    e = raised(openai.BadRequestError, chat, server, messages=[{"role": "clown", "content": "x"}])
    assert e.param == "messages[0].role" and e.code == "invalid_value", e.body
    e = raised(openai.BadRequestError, chat, server, max_tokens="many")
    assert e.param == "max_tokens" and e.code == "invalid_type", e.body
    e = raised(openai.BadRequestError, chat, server, top_logprobs=2)
    assert e.param == "top_logprobs", e.body


@scenario
def error_bad_value_of_a_stream(server):
    """It comes before the first event, as a status."""
    e = raised(openai.BadRequestError, chat, server, temperature=3, stream=True)
    assert e.param == "temperature", e.body


@scenario
def error_unknown_model(server):
    for ask in (chat, complete):
        e = raised(openai.NotFoundError, ask, server, model="gpt-9")
        assert e.code == "model_not_found" and e.type == "invalid_request_error" and "gpt-9" in e.message, e.body


@scenario
def error_context_length(server):
    long = "word " * 9000
    for e in (
        raised(openai.BadRequestError, chat, server, messages=[{"role": "user", "content": long}]),
        raised(openai.BadRequestError, complete, server, prompt=long),
    ):
        assert e.code == "context_length_exceeded" and e.param in ("messages", "prompt"), e.body


@scenario
def error_unknown_path(server):
    e = raised(openai.NotFoundError, connect(server).post, "/nothing/here", cast_to=object, body={})
    assert e.code == "unknown_url", e.body
    e = raised(openai.APIStatusError, connect(server).get, "/chat/completions", cast_to=object)
    assert e.status_code == 405 and e.response.headers["allow"] == "POST", e.body


@scenario
def error_not_built(server):
    """501, which is not tried again."""
    client = connect(server, max_retries=2)
    begin = time.monotonic()
    e = raised(openai.InternalServerError, client.embeddings.create, model=server.model, input="x")
    assert e.status_code == 501 and e.code == "not_implemented", e.body
    assert e.response.request.headers["x-stainless-retry-count"] == "0" and time.monotonic() - begin < 0.4
    e = raised(openai.InternalServerError, client.responses.create, model=server.model, input="x")
    assert e.status_code == 501, e.body


@scenario
def error_tools_are_refused_by_name(server):
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
    e = raised(openai.BadRequestError, chat, server, tools=[tool])
    assert e.param == "tools" and e.code == "unsupported_value", e.body


@scenario
def busy_is_a_rate_limit_error(server):
    e = raised(openai.RateLimitError, chat, server, connect(server, base_url=server.busy_url))
    assert e.status_code == 429 and e.code == "rate_limit_exceeded" and e.response.headers["retry-after"] == "1", e.body


@scenario
def busy_is_tried_again_after_the_time_that_was_said(server):
    begin = time.monotonic()
    raw = connect(server, base_url=server.busy_url, max_retries=2).chat.completions.with_raw_response
    answer = raw.create(model=server.model, messages=QUESTION, **GREEDY)
    assert answer.retries_taken == 1 and answer.parse().choices[0].message.content == chat(server).choices[0].message.content
    assert 0.9 < time.monotonic() - begin < 5


@scenario
def timeout_of_the_client(server):
    client = connect(server)
    raised(openai.APITimeoutError, chat, server, client.with_options(timeout=0.3), **LONG)
    server.wait_for_sequences(lambda n: n == 0, 1)
    assert chat(server, client).choices[0].message.content, "the client goes on"


@scenario
def cancel_of_a_stream(server):
    stream = chat(server, stream=True, **LONG)
    for _, chunk in zip(range(5), stream):
        assert chunk.choices[0].finish_reason is None
    server.wait_for_sequences(lambda n: n == 1, 5)
    stream.close()
    server.wait_for_sequences(lambda n: n == 0, 1)


@scenario
async def cancel_of_tasks(server):
    async with openai.AsyncOpenAI(base_url=server.base_url, api_key="none", max_retries=0) as client:
        asks = [asyncio.create_task(client.chat.completions.create(model=server.model, messages=QUESTION, n=2, **LONG)) for _ in range(3)]
        await asyncio.to_thread(server.wait_for_sequences, lambda n: n == 6, 10)
        for ask in asks:
            ask.cancel()
        assert all(isinstance(r, asyncio.CancelledError) for r in await asyncio.gather(*asks, return_exceptions=True))
        await asyncio.to_thread(server.wait_for_sequences, lambda n: n == 0, 1)
