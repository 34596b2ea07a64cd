"""How scenarios of the official openai library call a server."""

import functools

import openai

# A prompt whose likeliest answer is long enough, and of several tokens and lines.
QUESTION = [{"role": "user", "content": "Name three colors of the rainbow."}]
PROMPT = "The capital of France is"
GREEDY = {"temperature": 0, "seed": 1, "max_tokens": 16}
LONG = {"temperature": 0, "max_tokens": 2000, "extra_body": {"ignore_eos": True}}


def connect(server, **options):
    """A client that has each answer checked against the library's own types."""
    defaults = {"base_url": server.base_url, "api_key": "none", "max_retries": 0, "_strict_response_validation": True}
    return openai.OpenAI(**defaults | options)


@functools.cache
def shared(base_url, strict):
    """One client for most calls: it keeps its connections."""
    return openai.OpenAI(base_url=base_url, api_key="none", max_retries=0, _strict_response_validation=strict)


def chat(server, client=None, **more):
    return (client or shared(server.base_url, True)).chat.completions.create(
        **{"model": server.model, "messages": QUESTION} | GREEDY | more
    )


def complete(server, client=None, **more):
    # The library's type of a chunk is that of a whole answer, whose finish_reason is never null.
    return (client or shared(server.base_url, not more.get("stream"))).completions.create(
        **{"model": server.model, "prompt": PROMPT} | GREEDY | more
    )


def raised(kind, f, *args, **more):
    """The error that f raises, which must be exactly of a kind."""
    try:
        f(*args, **more)
    except openai.OpenAIError as e:
        assert type(e) is kind, f"{type(e).__name__} ({e}), want {kind.__name__}"
        return e
    raise AssertionError(f"no error, want {kind.__name__}")


def check_usage(usage, completion=None):
    assert usage.prompt_tokens > 0 and usage.completion_tokens > 0, usage
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens, usage
    assert completion is None or usage.completion_tokens == completion, (usage, completion)
