"""Models, headers, and how requests travel."""

import asyncio
import gzip
import inspect

import httpx
import openai

from openai_calls import GREEDY, PROMPT, QUESTION, chat, complete, connect, raised
from runner import scenario


@scenario
def models(server):
    client = connect(server)
    listed = client.models.list()
    assert listed.object == "list" and [m.id for m in listed.data] == [server.model]
    assert listed.data[0].object == "model" and listed.data[0].owned_by
    assert client.models.retrieve(server.model) == listed.data[0]
    e = raised(openai.NotFoundError, client.models.retrieve, "no/such-model")
    assert e.code == "model_not_found", e


@scenario
async def concurrent_streams(server):
    """Sixteen at once say what each says alone."""
    prompts = [f"{PROMPT} {i}." for i in range(16)]
    want = [complete(server, prompt=p, max_tokens=12).choices[0].text for p in prompts]
    async with openai.AsyncOpenAI(base_url=server.base_url, api_key="none", max_retries=0) as client:

        async def say(prompt):
            stream = await client.completions.create(model=server.model, prompt=prompt, stream=True, **GREEDY | {"max_tokens": 12})
            return "".join([chunk.choices[0].text async for chunk in stream])

        assert await asyncio.gather(*map(say, prompts)) == want


@scenario
def raw_response(server):
    raw = connect(server).chat.completions.with_raw_response
    answer = raw.create(model=server.model, messages=QUESTION, **GREEDY)
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("application/json")
    assert answer.request_id and answer.parse()._request_id == answer.request_id
    mine = raw.create(model=server.model, messages=QUESTION, extra_headers={"X-Request-Id": "mine-1"}, **GREEDY)
    assert mine.headers["x-request-id"] == "mine-1"
    e = raised(openai.BadRequestError, chat, server, temperature=3)
    assert e.request_id, "errors have a request id too"


@scenario
def streaming_response(server):
    with connect(server).chat.completions.with_streaming_response.create(
        model=server.model, messages=QUESTION, stream=True, **GREEDY
    ) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream"), answer.headers
        lines = [line for line in answer.iter_lines() if line]
    assert all(line.startswith(("data: ", ":")) for line in lines), lines
    assert lines[-1] == "data: [DONE]"


@scenario
def gzip_body(server):
    """The library lets an HTTP client of one's own compress what it sends."""

    class Zip(httpx.BaseTransport):
        inner, sent = httpx.HTTPTransport(), []

        def handle_request(self, request):
            body = gzip.compress(request.read())
            self.sent.append(body)
            headers = [(k, v) for k, v in request.headers.items() if k.lower() != "content-length"] + [("Content-Encoding", "gzip")]
            return self.inner.handle_request(httpx.Request(request.method, request.url, headers=headers, content=body))

    zipped = chat(server, connect(server, http_client=httpx.Client(transport=Zip())))
    assert len(Zip.sent) == 1 and zipped.choices[0].message.content == chat(server).choices[0].message.content


@scenario
def ignored_parameter(server):
    raw = connect(server).chat.completions.with_raw_response
    answer = raw.create(model=server.model, messages=QUESTION, extra_body={"frobnicate": 7, "x_other": {}}, **GREEDY)
    assert answer.headers["x-switchyard-ignored"] == "frobnicate, x_other", answer.headers
    assert answer.parse().choices[0].message.content == chat(server).choices[0].message.content
    assert "x-switchyard-ignored" not in raw.create(model=server.model, messages=QUESTION, **GREEDY).headers


@scenario
def every_parameter_is_known(server):
    """All that the library can send is known by name: null is taken, and nothing is called ignored."""
    client = connect(server)
    for resource, ask in ((client.chat.completions, {"messages": QUESTION}), (client.completions, {"prompt": PROMPT})):
        names = set(inspect.signature(resource.create).parameters)
        names -= {"messages", "prompt", "model", "extra_headers", "extra_query", "extra_body", "timeout"}
        assert len(names) > 15, names
        nulls = dict.fromkeys(sorted(names)) | {"max_tokens": 1}
        answer = resource.with_raw_response.create(model=server.model, extra_body=nulls, **ask)
        assert "x-switchyard-ignored" not in answer.headers, answer.headers["x-switchyard-ignored"]


@scenario
def labels_without_effect(server):
    a = chat(
        server,
        user="u",
        metadata={"k": "v"},
        safety_identifier="s",
        store=False,
        service_tier="auto",
        parallel_tool_calls=True,
        response_format={"type": "text"},
    )
    assert a.choices[0].message.content == chat(server).choices[0].message.content
