"""litellm against a server, as a custom OpenAI endpoint."""

import litellm

from runner import main, scenario

QUESTION = [{"role": "user", "content": "Name three colors of the rainbow."}]
PROMPT = "The capital of France is"

litellm.telemetry = False
litellm.suppress_debug_info = True


def options(server, **more):
    defaults = {
        "api_base": server.base_url,
        "api_key": "none",
        "temperature": 0,
        "seed": 1,
        "max_tokens": 16,
        "num_retries": 0,
        "max_retries": 0,
    }
    return defaults | more


def chat(server, **more):
    return litellm.completion(**{"model": f"openai/{server.model}", "messages": QUESTION} | options(server, **more))


def complete(server, **more):
    return litellm.text_completion(**{"model": f"text-completion-openai/{server.model}", "prompt": PROMPT} | options(server, **more))


def raised(kind, f, *args, **more):
    try:
        f(*args, **more)
    except Exception as e:
        assert type(e) is kind, f"{type(e).__name__} ({e}), want {kind.__name__}"
        return e
    raise AssertionError(f"no error, want {kind.__name__}")


@scenario
def completion(server):
    a = chat(server)
    assert a.choices[0].message.content and a.choices[0].finish_reason in ("stop", "length")
    assert a.usage.total_tokens == a.usage.prompt_tokens + a.usage.completion_tokens > 0


@scenario
async def acompletion(server):
    a = await litellm.acompletion(model=f"openai/{server.model}", messages=QUESTION, **options(server))
    assert a.choices[0].message.content == chat(server).choices[0].message.content


@scenario
def streaming(server):
    chunks = list(chat(server, stream=True, stream_options={"include_usage": True}))
    whole = chat(server)
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == whole.choices[0].message.content
    built = litellm.stream_chunk_builder(chunks, messages=QUESTION)
    assert built.usage.completion_tokens == whole.usage.completion_tokens, (built.usage, whole.usage)
    assert built.choices[0].finish_reason == whole.choices[0].finish_reason


@scenario
def several_answers(server):
    a = chat(server, n=3, temperature=1.5)
    assert [c.index for c in a.choices] == [0, 1, 2]


@scenario
def logprobs(server):
    c = chat(server, logprobs=True, top_logprobs=2).choices[0]
    assert "".join(t.token for t in c.logprobs.content) == c.message.content
    assert all(len(t.top_logprobs) == 2 for t in c.logprobs.content)


@scenario
def stop(server):
    text = chat(server).choices[0].message.content
    word = text.split()[len(text.split()) // 2]
    assert chat(server, stop=[word]).choices[0].message.content == text[: text.index(word)]


@scenario
def penalties_and_extra_body(server):
    a = chat(server, frequency_penalty=0.5, presence_penalty=0.5, extra_body={"top_k": 5, "min_p": 0.01, "repetition_penalty": 1.1})
    assert a.choices[0].message.content


@scenario
def text_completion(server):
    a = complete(server)
    assert "Paris" in a.choices[0].text
    assert "".join(c.choices[0].text or "" for c in complete(server, stream=True)) == a.choices[0].text


@scenario
def text_completion_of_several(server):
    a = complete(server, prompt=[PROMPT, "One, two, three,"])
    assert [c.index for c in a.choices] == [0, 1] and "Paris" in a.choices[0].text


@scenario
def errors(server):
    e = raised(litellm.NotFoundError, chat, server, model="openai/gpt-9")
    assert e.status_code == 404 and "gpt-9" in str(e)
    e = raised(litellm.BadRequestError, chat, server, temperature=3)
    assert e.status_code == 400 and "temperature" in str(e)
    raised(litellm.NotFoundError, complete, server, model="text-completion-openai/gpt-9")


@scenario
def error_context_length(server):
    """litellm knows it by the words of the message, and takes another model then."""
    raised(litellm.ContextWindowExceededError, chat, server, messages=[{"role": "user", "content": "word " * 9000}])


@scenario
def error_timeout(server):
    raised(litellm.Timeout, chat, server, max_tokens=2000, extra_body={"ignore_eos": True}, timeout=0.3)
    server.wait_for_sequences(lambda n: n == 0, 1)


@scenario
def busy_is_a_rate_limit_error(server):
    raised(litellm.RateLimitError, chat, server, api_base=server.busy_url)


@scenario
def busy_is_tried_again(server):
    a = chat(server, api_base=server.busy_url, max_retries=2, num_retries=None)
    assert a.choices[0].message.content == chat(server).choices[0].message.content


if __name__ == "__main__":
    main()
