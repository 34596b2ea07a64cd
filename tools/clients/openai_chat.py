"""Chats."""

import math
import time

from openai_calls import GREEDY, QUESTION, chat, check_usage, connect
from runner import scenario


@scenario
def chat_answer(server):
    a = chat(server)
    assert a.id.startswith("chatcmpl-") and a.object == "chat.completion" and a.model == server.model, a
    assert abs(a.created - time.time()) < 60, a.created
    assert [c.index for c in a.choices] == [0]
    message = a.choices[0].message
    assert message.role == "assistant" and message.content and message.refusal is None and not message.tool_calls, message
    assert a.choices[0].finish_reason in ("stop", "length")
    check_usage(a.usage)
    assert a.usage.prompt_tokens_details.cached_tokens <= a.usage.prompt_tokens


@scenario
def chat_roles_and_parts(server):
    def answer(first):
        messages = [
            {"role": first, "content": [{"type": "text", "text": "Answer in one word."}]},
            {"role": "user", "content": "What color is the sky?", "name": "ann"},
            {"role": "assistant", "content": "Blue."},
            {"role": "user", "content": [{"type": "text", "text": "And grass?"}, {"type": "text", "text": "Say it."}]},
        ]
        return chat(server, messages=messages).choices[0].message.content

    assert answer("system")
    assert answer("developer") == answer("system")


@scenario
def chat_answer_goes_back_in(server):
    """As programs keep a conversation: the message itself, or all its fields with those that are null."""
    first = chat(server).choices[0].message
    texts = set()
    for kept in (first, first.model_dump(), first.to_dict(), {"role": "assistant", "content": first.content}):
        a = chat(server, messages=[*QUESTION, kept, {"role": "user", "content": "Name another."}])
        texts.add(a.choices[0].message.content)
    assert len(texts) == 1, texts


@scenario
def chat_stream(server):
    whole = chat(server).choices[0]
    chunks = list(chat(server, stream=True))
    assert {c.object for c in chunks} == {"chat.completion.chunk"}
    assert len({(c.id, c.created, c.model) for c in chunks}) == 1
    assert all(len(c.choices) == 1 and c.choices[0].index == 0 and c.usage is None for c in chunks)
    deltas = [c.choices[0].delta for c in chunks]
    assert deltas[0].role == "assistant" and all(d.role in (None, "assistant") for d in deltas)
    assert "".join(d.content or "" for d in deltas) == whole.message.content
    assert len([d for d in deltas if d.content]) > 3, "it came in one piece"
    assert [c.choices[0].finish_reason for c in chunks][-1] == whole.finish_reason
    assert all(c.choices[0].finish_reason is None for c in chunks[:-1])


@scenario
def chat_stream_include_usage(server):
    whole = chat(server)
    chunks = list(chat(server, stream=True, stream_options={"include_usage": True}))
    assert all(c.usage is None and c.choices for c in chunks[:-1])
    assert all("usage" in c.model_fields_set for c in chunks[:-1]), "usage is left out, not null"
    assert chunks[-1].choices == []
    got, want = chunks[-1].usage, whole.usage
    assert (got.prompt_tokens, got.completion_tokens, got.total_tokens) == (want.prompt_tokens, want.completion_tokens, want.total_tokens)


@scenario
def chat_stream_helper(server):
    """The library's accumulator puts the chunks together."""
    whole = chat(server)
    with connect(server).chat.completions.stream(
        model=server.model, messages=QUESTION, stream_options={"include_usage": True}, **GREEDY
    ) as stream:
        types = {event.type for event in stream}
        final = stream.get_final_completion()
    assert {"chunk", "content.delta", "content.done"} <= types, types
    assert final.choices[0].message.content == whole.choices[0].message.content
    assert final.usage.completion_tokens == whole.usage.completion_tokens


@scenario
def chat_n(server):
    a = chat(server, n=3, temperature=1.5, max_tokens=8, extra_body={"ignore_eos": True})
    assert [c.index for c in a.choices] == [0, 1, 2]
    assert len({c.message.content for c in a.choices}) > 1, "three draws that are one"
    assert {c.finish_reason for c in a.choices} == {"length"}
    check_usage(a.usage, 3 * 8)
    assert a.usage.prompt_tokens == chat(server, max_tokens=1).usage.prompt_tokens, "the prompt counts once"


@scenario
def chat_n_stream(server):
    ask = {"n": 3, "temperature": 1.5, "seed": 5, "max_tokens": 8, "extra_body": {"ignore_eos": True}}
    whole = chat(server, **ask)
    texts, ends = [""] * 3, [None] * 3
    for chunk in chat(server, stream=True, stream_options={"include_usage": True}, **ask):
        for c in chunk.choices:
            texts[c.index] += c.delta.content or ""
            ends[c.index] = c.finish_reason or ends[c.index]
    assert texts == [c.message.content for c in whole.choices]
    assert ends == ["length"] * 3
    check_usage(chunk.usage, 3 * 8)


def check_logprobs(content, text, top):
    assert "".join(t.token for t in content) == text, ([t.token for t in content], text)
    assert b"".join(bytes(t.bytes) for t in content).decode() == text
    for t in content:
        assert t.logprob <= 0 and len(t.top_logprobs) == top, t
        values = [o.logprob for o in t.top_logprobs]
        assert values == sorted(values, reverse=True), values
        assert sum(map(math.exp, values)) < 1.001, values
        if top:  # the likeliest was taken
            assert (t.token, t.logprob, t.bytes) == (t.top_logprobs[0].token, values[0], t.top_logprobs[0].bytes), t


@scenario
def chat_logprobs(server):
    ask = {"logprobs": True, "max_tokens": 8, "extra_body": {"ignore_eos": True}}
    for top in (0, 4):
        c = chat(server, top_logprobs=top, **ask).choices[0]
        assert c.logprobs.refusal is None and len(c.logprobs.content) == 8
        check_logprobs(c.logprobs.content, c.message.content, top)
    assert chat(server, logprobs=True).choices[0].logprobs.content[0].top_logprobs == []
    assert chat(server).choices[0].logprobs is None


@scenario
def chat_logprobs_stream(server):
    ask = {"logprobs": True, "top_logprobs": 2, "max_tokens": 8}
    whole = chat(server, **ask).choices[0]
    text, content = "", []
    for chunk in chat(server, stream=True, **ask):
        text += chunk.choices[0].delta.content or ""
        if chunk.choices[0].logprobs:
            content += chunk.choices[0].logprobs.content
    check_logprobs(content, text, 2)
    assert content == whole.logprobs.content


@scenario
def chat_logprobs_of_split_characters(server):
    """A character may be of several tokens: their bytes join."""
    ask = {"messages": [{"role": "user", "content": "🙂"}], "logprobs": True, "max_tokens": 3}
    smile = server.tokens("🙂")
    assert len(smile) > 1
    for token in smile:  # the answer is one part of it thrice
        c = chat(server, logit_bias={str(token): 100}, **ask).choices[0]
        parts = [bytes(t.bytes) for t in c.logprobs.content]
        assert len(parts) == 3 and len(set(parts)) == 1, parts
        assert c.message.content == b"".join(parts).decode(errors="replace"), (c.message.content, parts)


@scenario
def chat_stop(server):
    text = chat(server).choices[0].message.content
    stop = text[len(text) // 2 :][:3]
    for given in (stop, [stop, "never said"]):
        c = chat(server, stop=given).choices[0]
        assert c.finish_reason == "stop"
        assert c.message.content == text[: text.index(stop)], (c.message.content, text, stop)


@scenario
def chat_stop_stream(server):
    """Nothing of a stop text gets out, also where a token ends within it."""
    text = chat(server).choices[0].message.content
    middle = text.index(" ", len(text) // 2)
    stop = text[middle - 2 : middle + 2]
    chunks = list(chat(server, stop=[stop], stream=True))
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == text[: text.index(stop)]
    assert chunks[-1].choices[0].finish_reason == "stop"


@scenario
def chat_max_tokens(server):
    for limit in ({"max_tokens": 3}, {"max_tokens": None, "max_completion_tokens": 3}):
        a = chat(server, **limit)
        assert a.choices[0].finish_reason == "length"
        check_usage(a.usage, 3)


@scenario
def chat_seed(server):
    def drawn(seed):
        return chat(server, temperature=1, seed=seed, max_tokens=24).choices[0].message.content

    assert drawn(7) == drawn(7)
    assert len({drawn(seed) for seed in (7, 8, 9)}) > 1
    assert drawn(-1) == drawn(-1)


@scenario
def chat_logit_bias(server):
    text = chat(server).choices[0].message.content
    first = server.tokens(text)[0]
    banned = chat(server, logit_bias={str(first): -100}).choices[0].message.content
    assert server.tokens(banned)[0] != first, (banned, text)
    forced = server.tokens(" yes")[0]
    assert chat(server, logit_bias={str(forced): 100}, max_tokens=3).choices[0].message.content == " yes" * 3


@scenario
def chat_penalties(server):
    """Greedy answers of small models go round in circles; penalties break them."""
    ask = {"messages": [{"role": "user", "content": "Repeat the word go."}], "max_tokens": 32}

    def words(**more):
        ids = (
            chat(server, **ask, extra_body={"ignore_eos": True, "return_token_ids": True} | more.pop("extra", {}), **more)
            .choices[0]
            .token_ids
        )
        return len(set(ids)) / len(ids)

    plain = words()
    assert words(frequency_penalty=2.0) > plain
    assert words(presence_penalty=2.0) > plain
    assert words(extra={"repetition_penalty": 1.5}) > plain
    assert words(frequency_penalty=0, presence_penalty=0, extra={"repetition_penalty": 1}) == plain
