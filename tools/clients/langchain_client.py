"""ChatOpenAI of langchain-openai against a server."""

import openai
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI, OpenAI

from runner import main, scenario

QUESTION = "Name three colors of the rainbow."


def connect(server, **options):
    defaults = {"base_url": server.base_url, "api_key": "none", "model": server.model}
    return ChatOpenAI(**defaults | {"temperature": 0, "seed": 1, "max_tokens": 16, "max_retries": 0} | options)


@scenario
def invoke(server):
    a = connect(server).invoke(QUESTION)
    assert isinstance(a, AIMessage) and a.text
    used = a.usage_metadata
    assert (
        used["input_tokens"] > 0 and used["output_tokens"] > 0 and used["total_tokens"] == used["input_tokens"] + used["output_tokens"]
    ), used
    assert a.response_metadata["finish_reason"] in ("stop", "length") and a.response_metadata["model_name"] == server.model


@scenario
def invoke_messages(server):
    a = connect(server).invoke(
        [SystemMessage("Answer in one word."), HumanMessage("What color is the sky?"), AIMessage("Blue."), HumanMessage("And grass?")]
    )
    assert a.text


@scenario
def an_answer_goes_back_in(server):
    """What a message of ours becomes in the next request is accepted."""
    model = connect(server)
    first = model.invoke(QUESTION)
    assert model.invoke([HumanMessage(QUESTION), first, HumanMessage("Name another.")]).text


@scenario
def stream(server):
    model = connect(server, stream_usage=True)
    chunks = list(model.stream(QUESTION))
    whole = model.invoke(QUESTION)
    total = chunks[0]
    for chunk in chunks[1:]:
        total += chunk
    assert total.text == whole.text and len([c for c in chunks if c.text]) > 3
    assert total.usage_metadata["total_tokens"] == whole.usage_metadata["total_tokens"], total
    assert total.response_metadata["finish_reason"] == whole.response_metadata["finish_reason"]


@scenario
def batch(server):
    model = connect(server)
    questions = [QUESTION, "What color is the sky?", "Say hello."]
    assert [a.text for a in model.batch(questions)] == [model.invoke(q).text for q in questions]


@scenario
async def ainvoke(server):
    model = connect(server)
    assert (await model.ainvoke(QUESTION)).text == model.invoke(QUESTION).text


@scenario
async def astream(server):
    model = connect(server)
    assert "".join([c.text async for c in model.astream(QUESTION)]) == model.invoke(QUESTION).text


@scenario
def chain(server):
    chained = ChatPromptTemplate.from_messages([("system", "You are brief."), ("user", "{question}")]) | connect(server) | StrOutputParser()
    assert chained.invoke({"question": QUESTION})


@scenario
def logprobs(server):
    a = connect(server).bind(logprobs=True, top_logprobs=2).invoke(QUESTION)
    content = a.response_metadata["logprobs"]["content"]
    assert "".join(t["token"] for t in content) == a.text
    assert all(len(t["top_logprobs"]) == 2 for t in content)


@scenario
def stop(server):
    text = connect(server).invoke(QUESTION).text
    word = text.split()[len(text.split()) // 2]
    for a in (connect(server).invoke(QUESTION, stop=[word]), connect(server, stop_sequences=[word]).invoke(QUESTION)):
        assert a.text == text[: text.index(word)] and a.response_metadata["finish_reason"] == "stop", a


@scenario
def several_answers(server):
    result = connect(server, n=3, temperature=1.5).generate([[HumanMessage(QUESTION)]])
    assert len(result.generations[0]) == 3 and len({g.text for g in result.generations[0]}) > 1


@scenario
def penalties_and_extra_body(server):
    model = connect(server, frequency_penalty=0.5, presence_penalty=0.5, extra_body={"top_k": 5, "min_p": 0.01, "repetition_penalty": 1.1})
    assert model.invoke(QUESTION).text


@scenario
def text_model(server):
    model = OpenAI(base_url=server.base_url, api_key="none", model=server.model, temperature=0, max_tokens=8, max_retries=0)
    text = model.invoke("The capital of France is")
    assert "Paris" in text
    assert "".join(model.stream("The capital of France is")) == text


@scenario
def text_model_batch(server):
    """It sends several prompts in one request."""
    model = OpenAI(base_url=server.base_url, api_key="none", model=server.model, temperature=0, max_tokens=8, max_retries=0)
    prompts = ["The capital of France is", "One, two, three,"]
    assert model.batch(prompts) == [model.invoke(p) for p in prompts]


@scenario
def errors(server):
    for options, kind in (({"model": "gpt-9"}, openai.NotFoundError), ({"temperature": 3}, openai.BadRequestError)):
        bound = connect(server).bind(**options)
        try:
            bound.invoke(QUESTION)
        except openai.OpenAIError as e:
            assert isinstance(e, kind), repr(e)
        else:
            raise AssertionError(f"no error with {options}")


@scenario
def error_context_length(server):
    """It is known by the words of the message."""
    try:
        connect(server).invoke("word " * 9000)
    except ContextOverflowError as e:
        assert e.code == "context_length_exceeded", e
    else:
        raise AssertionError("no error")


@scenario
def busy_is_tried_again(server):
    assert connect(server, base_url=server.busy_url, max_retries=1).invoke(QUESTION).text == connect(server).invoke(QUESTION).text


if __name__ == "__main__":
    main()
