// The official openai package of npm against a server.

import assert from 'node:assert/strict';
import { gzipSync } from 'node:zlib';

import { library, main } from './runner.mjs';

const openai = await library('openai/index.mjs');
const OpenAI = openai.default;

const question = [{ role: 'user', content: 'Name three colors of the rainbow.' }];
const prompt = 'The capital of France is';
const greedy = { temperature: 0, seed: 1, max_tokens: 16 };
const long = { temperature: 0, max_tokens: 2000, ignore_eos: true };

const connect = (server, options = {}) => new OpenAI({ baseURL: server.baseURL, apiKey: 'none', maxRetries: 0, ...options });
const asChat = (server, more) => ({ model: server.model, messages: question, ...greedy, ...more });
const asText = (server, more) => ({ model: server.model, prompt, ...greedy, ...more });
const chat = (server, more, client = connect(server)) => client.chat.completions.create(asChat(server, more));
const complete = (server, more, client = connect(server)) => client.completions.create(asText(server, more));

async function collect(stream) {
  const all = [];
  for await (const chunk of await stream) all.push(chunk);
  return all;
}

const joined = (chunks) => chunks.map((c) => c.choices[0]?.delta.content ?? '').join('');

// raised gives the error of a promise, which must be exactly of a kind.
async function raised(kind, promise) {
  const error = await promise.then(() => assert.fail(`no error, want ${kind.name}`), (e) => e);
  assert.equal(error.constructor.name, kind.name, String(error));
  return error;
}

function checkUsage(usage, completion) {
  assert.ok(usage.prompt_tokens > 0 && usage.completion_tokens > 0);
  assert.equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens);
  if (completion !== undefined) assert.equal(usage.completion_tokens, completion);
}

function checkLogprobs(content, text, top) {
  assert.equal(content.map((t) => t.token).join(''), text);
  assert.equal(Buffer.from(content.flatMap((t) => t.bytes)).toString(), text);
  for (const t of content) {
    const values = t.top_logprobs.map((o) => o.logprob);
    assert.equal(values.length, top);
    assert.deepEqual(values, values.toSorted((a, b) => b - a));
    assert.equal(t.logprob, values[0]);
  }
}

await main({
  async chat_answer(server) {
    const a = await chat(server);
    assert.equal(a.object, 'chat.completion');
    assert.equal(a.model, server.model);
    assert.equal(a.choices[0].message.role, 'assistant');
    assert.ok(a.choices[0].message.content);
    assert.ok(['stop', 'length'].includes(a.choices[0].finish_reason));
    checkUsage(a.usage);
    assert.ok(a._request_id);
  },

  async chat_answer_goes_back_in(server) {
    const first = (await chat(server)).choices[0].message;
    const a = await chat(server, { messages: [...question, first, { role: 'user', content: 'Name another.' }] });
    assert.ok(a.choices[0].message.content);
  },

  async chat_stream(server) {
    const whole = await chat(server);
    const chunks = await collect(chat(server, { stream: true }));
    assert.equal(joined(chunks), whole.choices[0].message.content);
    assert.equal(chunks.at(-1).choices[0].finish_reason, whole.choices[0].finish_reason);
    assert.ok(chunks.filter((c) => c.choices[0].delta.content).length > 3);
  },

  async chat_stream_include_usage(server) {
    const whole = await chat(server);
    const chunks = await collect(chat(server, { stream: true, stream_options: { include_usage: true } }));
    const last = chunks.pop();
    assert.ok(chunks.every((c) => c.usage === null && c.choices.length === 1));
    assert.deepEqual(last.choices, []);
    assert.equal(last.usage.total_tokens, whole.usage.total_tokens);
  },

  async chat_stream_helper(server) {
    const stream = connect(server).chat.completions.stream(asChat(server, { stream_options: { include_usage: true } }));
    const deltas = [];
    stream.on('content', (delta) => deltas.push(delta));
    const final = await stream.finalChatCompletion();
    const whole = await chat(server);
    assert.equal(final.choices[0].message.content, whole.choices[0].message.content);
    assert.equal(deltas.join(''), whole.choices[0].message.content);
    assert.equal((await stream.totalUsage()).total_tokens, whole.usage.total_tokens);
  },

  async chat_n(server) {
    const a = await chat(server, { n: 3, temperature: 1.5, max_tokens: 8, ignore_eos: true });
    assert.deepEqual(a.choices.map((c) => c.index), [0, 1, 2]);
    assert.ok(new Set(a.choices.map((c) => c.message.content)).size > 1);
    checkUsage(a.usage, 24);
  },

  async chat_logprobs(server) {
    const ask = { logprobs: true, top_logprobs: 3, max_tokens: 8 };
    const c = (await chat(server, ask)).choices[0];
    checkLogprobs(c.logprobs.content, c.message.content, 3);
    const chunks = await collect(chat(server, { ...ask, stream: true }));
    const content = chunks.flatMap((chunk) => chunk.choices[0].logprobs?.content ?? []);
    assert.deepEqual(content, c.logprobs.content);
  },

  async chat_stop(server) {
    const text = (await chat(server)).choices[0].message.content;
    const stop = text.slice(text.length / 2, text.length / 2 + 3);
    const c = (await chat(server, { stop: [stop] })).choices[0];
    assert.equal(c.finish_reason, 'stop');
    assert.equal(c.message.content, text.slice(0, text.indexOf(stop)));
  },

  async chat_max_tokens(server) {
    const a = await chat(server, { max_tokens: undefined, max_completion_tokens: 3 });
    assert.equal(a.choices[0].finish_reason, 'length');
    checkUsage(a.usage, 3);
  },

  async chat_seed(server) {
    const drawn = async (seed) => (await chat(server, { temperature: 1, seed, max_tokens: 24 })).choices[0].message.content;
    assert.equal(await drawn(7), await drawn(7));
    assert.ok(new Set([await drawn(7), await drawn(8), await drawn(9)]).size > 1);
  },

  async chat_logit_bias(server) {
    const [first] = await server.tokens((await chat(server)).choices[0].message.content);
    const banned = (await chat(server, { logit_bias: { [first]: -100 } })).choices[0].message.content;
    assert.notEqual((await server.tokens(banned))[0], first);
  },

  async completions(server) {
    const a = await complete(server);
    assert.match(a.choices[0].text, /Paris/);
    const ids = await complete(server, { prompt: await server.tokens(prompt) });
    assert.equal(ids.choices[0].text, a.choices[0].text);
    const chunks = await collect(complete(server, { stream: true }));
    assert.equal(chunks.map((c) => c.choices[0].text).join(''), a.choices[0].text);
  },

  async completions_of_several_prompts(server) {
    const a = await complete(server, { prompt: [prompt, 'One, two, three,'] });
    assert.deepEqual(a.choices.map((c) => c.index), [0, 1]);
    assert.match(a.choices[0].text, /Paris/);
  },

  async completions_echo_and_best_of(server) {
    assert.ok((await complete(server, { echo: true })).choices[0].text.startsWith(prompt));
    const a = await complete(server, { best_of: 3, temperature: 1, max_tokens: 4, ignore_eos: true });
    assert.equal(a.choices.length, 1);
    checkUsage(a.usage, 12);
  },

  async completions_logprobs(server) {
    const c = (await complete(server, { logprobs: 2 })).choices[0];
    assert.equal(c.logprobs.tokens.join(''), c.text);
    assert.ok(c.logprobs.top_logprobs.every((top) => Object.keys(top).length === 2));
  },

  async models(server) {
    const client = connect(server);
    const all = await collect(client.models.list());
    assert.deepEqual(all.map((m) => m.id), [server.model]);
    assert.equal((await client.models.retrieve(server.model)).id, server.model);
    assert.equal((await raised(openai.NotFoundError, client.models.retrieve('no/such-model'))).code, 'model_not_found');
  },

  async concurrent_streams(server) {
    const prompts = Array.from({ length: 16 }, (_, i) => `${prompt} ${i}.`);
    const want = [];
    for (const p of prompts) want.push((await complete(server, { prompt: p, max_tokens: 12 })).choices[0].text);
    const client = connect(server);
    const all = await Promise.all(prompts.map((p) => collect(complete(server, { prompt: p, max_tokens: 12, stream: true }, client))));
    assert.deepEqual(all.map((chunks) => chunks.map((c) => c.choices[0].text).join('')), want);
  },

  async raw_response(server) {
    const { data, response, request_id } = await connect(server).chat.completions.create(asChat(server)).withResponse();
    assert.ok(data.choices[0].message.content);
    assert.equal(request_id, response.headers.get('x-request-id'));
    const error = await raised(openai.BadRequestError, chat(server, { temperature: 3 }));
    assert.ok(error.requestID);
  },

  async gzip_body(server) {
    const zip = (url, init) => fetch(url, { ...init, body: gzipSync(init.body), headers: [...init.headers, ['content-encoding', 'gzip']] });
    const a = await chat(server, {}, connect(server, { fetch: zip }));
    assert.equal(a.choices[0].message.content, (await chat(server)).choices[0].message.content);
  },

  async ignored_parameter(server) {
    const { response } = await connect(server).chat.completions.create(asChat(server, { frobnicate: 7 })).withResponse();
    assert.equal(response.headers.get('x-switchyard-ignored'), 'frobnicate');
  },

  async extra_parameters(server) {
    const want = (await chat(server)).choices[0].message.content;
    const a = await chat(server, { temperature: 1.5, top_k: 1, min_p: 0, repetition_penalty: 1 });
    assert.equal(a.choices[0].message.content, want);
    const b = await chat(server, { min_tokens: 20, max_tokens: 20, return_token_ids: true });
    assert.equal(b.choices[0].token_ids.length, 20);
    assert.equal(b.prompt_token_ids.length, b.usage.prompt_tokens);
  },

  async errors(server) {
    let e = await raised(openai.BadRequestError, chat(server, { temperature: 3 }));
    assert.deepEqual([e.status, e.param, e.code, e.type], [400, 'temperature', 'decimal_above_max_value', 'invalid_request_error']);
    e = await raised(openai.BadRequestError, chat(server, { temperature: 3, stream: true }));
    assert.equal(e.param, 'temperature');
    e = await raised(openai.NotFoundError, chat(server, { model: 'gpt-9' }));
    assert.equal(e.code, 'model_not_found');
    e = await raised(openai.BadRequestError, complete(server, { prompt: 'word '.repeat(9000) }));
    assert.equal(e.code, 'context_length_exceeded');
    e = await raised(openai.NotFoundError, connect(server).post('/nothing', { body: {} }));
    assert.equal(e.code, 'unknown_url');
  },

  async error_not_built(server) {
    let calls = 0;
    const counted = (...args) => (calls++, fetch(...args));
    const client = connect(server, { maxRetries: 2, fetch: counted });
    const e = await raised(openai.InternalServerError, client.embeddings.create({ model: server.model, input: 'x' }));
    assert.deepEqual([e.status, e.code, calls], [501, 'not_implemented', 1]);
  },

  async busy_is_a_rate_limit_error(server) {
    const e = await raised(openai.RateLimitError, chat(server, {}, connect(server, { baseURL: server.busyURL })));
    assert.equal(e.code, 'rate_limit_exceeded');
    assert.equal(e.headers.get('retry-after'), '1');
  },

  async busy_is_tried_again_after_the_time_that_was_said(server) {
    const begin = Date.now();
    const a = await chat(server, {}, connect(server, { baseURL: server.busyURL, maxRetries: 2 }));
    assert.ok(a.choices[0].message.content);
    assert.ok(Date.now() - begin > 900);
  },

  async timeout_of_the_client(server) {
    await raised(openai.APIConnectionTimeoutError, chat(server, long, connect(server, { timeout: 300 })));
    await server.waitForSequences((n) => n === 0, 1);
  },

  async cancel_of_a_stream(server) {
    const stream = await chat(server, { ...long, stream: true });
    let chunks = 0;
    for await (const _ of stream) if (++chunks === 5) break; // which aborts it
    await server.waitForSequences((n) => n === 0, 1);
  },

  async abort_of_an_answer(server) {
    const controller = new AbortController();
    const answer = connect(server).chat.completions.create(asChat(server, long), { signal: controller.signal });
    const aborted = server.waitForSequences((n) => n === 1, 5).finally(() => controller.abort());
    await Promise.all([raised(openai.APIUserAbortError, answer), aborted]);
    await server.waitForSequences((n) => n === 0, 1);
  },
});
