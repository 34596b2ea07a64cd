"""Text completions, and parameters of other servers, which go in extra_body."""

import openai

from openai_calls import PROMPT, chat, check_usage, complete, raised
from runner import scenario


@scenario
def completion_text(server):
    a = complete(server)
    assert a.id.startswith("cmpl-") and a.object == "text_completion" and a.model == server.model, a
    assert "Paris" in a.choices[0].text and a.choices[0].finish_reason in ("stop", "length"), a
    assert a.choices[0].logprobs is None
    check_usage(a.usage)


@scenario
def completion_token_ids(server):
    text, ids = complete(server), complete(server, prompt=server.tokens(PROMPT))
    assert ids.choices[0].text == text.choices[0].text
    assert ids.usage.prompt_tokens == text.usage.prompt_tokens


@scenario
def completion_list_of_texts(server):
    prompts = [PROMPT, "One, two, three,", "Once upon a time"]
    single = [complete(server, prompt=p) for p in prompts]
    for given in (prompts, [server.tokens(p) for p in prompts]):
        a = complete(server, prompt=given)
        assert [c.index for c in a.choices] == [0, 1, 2]
        assert [c.text for c in a.choices] == [s.choices[0].text for s in single]
        assert a.usage.prompt_tokens == sum(s.usage.prompt_tokens for s in single)
        check_usage(a.usage, sum(s.usage.completion_tokens for s in single))


@scenario
def completion_list_with_n(server):
    """The choices of the first prompt come first."""
    ask = {"prompt": [PROMPT, "One, two, three,"], "max_tokens": 4}
    a = complete(server, n=2, **ask)
    assert [c.index for c in a.choices] == [0, 1, 2, 3]
    first, second = [c.text for c in complete(server, **ask).choices]
    assert [c.text for c in a.choices] == [first, first, second, second]  # all greedy


@scenario
def completion_echo(server):
    text = complete(server).choices[0].text
    assert complete(server, echo=True).choices[0].text == PROMPT + text
    assert "".join(c.choices[0].text for c in complete(server, echo=True, stream=True)) == PROMPT + text
    both = complete(server, echo=True, prompt=[PROMPT, "One, two,"])
    assert [c.text.startswith(p) for c, p in zip(both.choices, [PROMPT, "One, two,"])] == [True, True]


@scenario
def completion_best_of(server):
    ask = {"temperature": 1.2, "seed": 3, "max_tokens": 6, "logprobs": 0, "extra_body": {"ignore_eos": True}}

    def mean(choice):
        return sum(choice.logprobs.token_logprobs) / len(choice.logprobs.token_logprobs)

    a = complete(server, best_of=4, n=2, **ask)
    assert [c.index for c in a.choices] == [0, 1] and mean(a.choices[0]) >= mean(a.choices[1])
    check_usage(a.usage, 4 * 6)  # what is dropped was generated, too
    e = raised(openai.BadRequestError, complete, server, best_of=1, n=2)
    assert e.param == "best_of", e


@scenario
def completion_stream(server):
    whole = complete(server)
    chunks = list(complete(server, stream=True, stream_options={"include_usage": True}))
    assert {c.object for c in chunks} == {"text_completion"}
    assert "".join(c.choices[0].text for c in chunks[:-1]) == whole.choices[0].text
    assert chunks[-2].choices[0].finish_reason == whole.choices[0].finish_reason
    assert chunks[-1].choices == [] and chunks[-1].usage.total_tokens == whole.usage.total_tokens


@scenario
def completion_list_stream(server):
    prompts = [PROMPT, "One, two, three,"]
    want = [c.text for c in complete(server, prompt=prompts).choices]
    texts = ["", ""]
    for chunk in complete(server, prompt=prompts, stream=True):
        for c in chunk.choices:
            texts[c.index] += c.text
    assert texts == want


@scenario
def completion_logprobs(server):
    c = complete(server, logprobs=3, max_tokens=8, extra_body={"ignore_eos": True}).choices[0]
    p = c.logprobs
    assert "".join(p.tokens) == c.text
    assert len(p.tokens) == len(p.token_logprobs) == len(p.top_logprobs) == len(p.text_offset) == 8
    for token, logprob, top, offset in zip(p.tokens, p.token_logprobs, p.top_logprobs, p.text_offset):
        assert logprob <= 0 and len(top) == 3 and top[token] == logprob == max(top.values()), (token, logprob, top)
        assert c.text[offset:].startswith(token), (token, offset)
    streamed = list(complete(server, logprobs=3, max_tokens=8, stream=True, extra_body={"ignore_eos": True}))
    parts = [s.choices[0].logprobs for s in streamed if s.choices and s.choices[0].logprobs]
    assert sum((part.tokens for part in parts), []) == p.tokens
    assert sum((part.text_offset for part in parts), []) == p.text_offset
    assert sum((part.token_logprobs for part in parts), []) == p.token_logprobs


@scenario
def extra_top_k_and_min_p(server):
    want = chat(server).choices[0].message.content
    for only in ({"top_k": 1}, {"min_p": 1.0}):
        assert chat(server, temperature=1.5, extra_body=only).choices[0].message.content == want, only
    for all in ({"top_k": -1}, {"top_k": 0}, {"min_p": 0}):
        assert chat(server, temperature=0, extra_body=all).choices[0].message.content == want, all


@scenario
def extra_min_tokens_and_ignore_eos(server):
    ask = {"messages": [{"role": "user", "content": "Say only: hi"}], "max_tokens": 200}
    short = chat(server, **ask)
    assert short.choices[0].finish_reason == "stop"
    n = short.usage.completion_tokens
    longer = chat(server, extra_body={"min_tokens": n + 10}, **ask)
    assert longer.usage.completion_tokens >= n + 10, longer
    endless = chat(server, extra_body={"ignore_eos": True}, **ask | {"max_tokens": n + 20})
    assert endless.choices[0].finish_reason == "length"
    check_usage(endless.usage, n + 20)


@scenario
def extra_stop_token_ids(server):
    text = complete(server).choices[0].text
    ids = server.tokens(text)
    stop = ids[3]
    c = complete(server, extra_body={"stop_token_ids": [stop]}).choices[0]
    assert c.finish_reason == "stop"
    assert server.tokens(c.text) == ids[: ids.index(stop)], (c.text, text)


@scenario
def extra_return_token_ids(server):
    a = complete(server, extra_body={"return_token_ids": True, "ignore_eos": True})
    ids = a.choices[0].token_ids
    assert len(ids) == a.usage.completion_tokens
    assert server.post("/detokenize", {"model": server.model, "tokens": ids})["prompt"] == a.choices[0].text
    assert a.choices[0].prompt_token_ids == server.tokens(PROMPT)
    c = chat(server, extra_body={"return_token_ids": True, "ignore_eos": True})
    assert len(c.choices[0].token_ids) == c.usage.completion_tokens and len(c.prompt_token_ids) == c.usage.prompt_tokens
    streamed = []
    for chunk in complete(server, stream=True, extra_body={"return_token_ids": True, "ignore_eos": True}):
        streamed += getattr(chunk.choices[0], "token_ids", None) or []
    assert streamed == ids
