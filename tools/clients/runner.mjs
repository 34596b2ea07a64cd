// Runs scenarios, which are functions of a client program, as runner.py does, and prints the same lines.

import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';

// library imports a package of those that clients.py installed.
export const library = (path) => import(pathToFileURL(join(process.env.SWITCHYARD_CLIENTS, 'node_modules', path)));

class Server {
  constructor(baseURL, busyURL) {
    this.baseURL = baseURL.replace(/\/$/, '');
    this.busyURL = busyURL;
    this.root = this.baseURL.replace(/\/v1$/, '');
  }

  async post(path, body) {
    const answer = await fetch(this.root + path, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
    return answer.json();
  }

  // tokens gives the token ids of a text, without those that a prompt begins with.
  async tokens(text) {
    return (await this.post('/tokenize', { model: this.model, prompt: text, add_special_tokens: false })).tokens;
  }

  // waitForSequences waits until what runs or waits in workers, by the server's own metrics, is as wanted.
  async waitForSequences(wanted, seconds) {
    for (const end = Date.now() + seconds * 1000; ; await new Promise((done) => setTimeout(done, 20))) {
      const text = await (await fetch(this.root + '/metrics')).text();
      const lines = text.split('\n').filter((line) => line.startsWith('switchyard_worker_sequences{'));
      if (lines.length === 0) throw new Error('the metrics lack switchyard_worker_sequences');
      const n = lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
      if (wanted(n)) return;
      if (Date.now() > end) throw new Error(`${n} sequences in the workers after ${seconds} s`);
    }
  }
}

// where is the scenario's own line.
const where = (error) => /\w+_client\.mjs:\d+/.exec(error.stack ?? '')?.[0] ?? '';

// main runs the scenarios of an object, by their names.
export async function main(scenarios) {
  const options = { 'base-url': { type: 'string' }, 'busy-url': { type: 'string', default: '' } };
  const { values, positionals } = parseArgs({ options, allowPositionals: true });
  if (!values['base-url']) throw new Error('--base-url is needed, such as http://127.0.0.1:8000/v1');
  const unknown = positionals.filter((name) => !(name in scenarios));
  if (unknown.length > 0) throw new Error(`no scenario ${unknown}; there are ${Object.keys(scenarios)}`);
  const server = new Server(values['base-url'], values['busy-url']);
  server.model = (await (await fetch(server.baseURL + '/models')).json()).data[0].id;
  let count = 0;
  for (const [name, run] of Object.entries(scenarios)) {
    if (positionals.length > 0 && !positionals.includes(name)) continue;
    if (!server.busyURL && name.startsWith('busy_')) continue;
    count++;
    const line = { name, ok: true };
    const begin = Date.now();
    try {
      await run(server);
    } catch (error) {
      process.exitCode = 1;
      Object.assign(line, { ok: false, error: `${where(error)}: ${error}`.slice(0, 2000) });
    }
    console.log(JSON.stringify({ ...line, seconds: (Date.now() - begin) / 1000 }));
  }
  console.log(JSON.stringify({ scenarios: count }));
}
