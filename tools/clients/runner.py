"""Runs scenarios, which are functions of a client program, and prints a line of JSON for each: name, ok, and the error of one
that failed. The last line says how many there were, so that a program that died shows.
"""

import argparse
import asyncio
import dataclasses
import inspect
import json
import os
import sys
import time
import traceback
import urllib.request

_scenarios = {}


@dataclasses.dataclass
class Server:
    """Where a server is. busy_url is the same one behind a proxy that answers the first try of each request with 429."""

    base_url: str
    model: str = ""
    busy_url: str = ""

    @property
    def root(self):
        return self.base_url.removesuffix("/v1")

    def get(self, path):
        with urllib.request.urlopen(self.root + path, timeout=30) as answer:
            return answer.read().decode()

    def post(self, path, body):
        request = urllib.request.Request(self.root + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def tokens(self, text):
        """The token ids of a text, without those that a prompt begins with."""
        return self.post("/tokenize", {"model": self.model, "prompt": text, "add_special_tokens": False})["tokens"]

    def sequences(self):
        """How many sequences run or wait in workers, by the server's own metrics."""
        lines = [line for line in self.get("/metrics").splitlines() if line.startswith("switchyard_worker_sequences{")]
        assert lines, "the metrics lack switchyard_worker_sequences"
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)

    def wait_for_sequences(self, wanted, seconds):
        end = time.monotonic() + seconds
        while not wanted(n := self.sequences()):
            assert time.monotonic() < end, f"{n} sequences in the workers after {seconds} s"
            time.sleep(0.02)


def scenario(function):
    """Marks a scenario. It takes the Server, and may be async."""
    _scenarios[function.__name__] = function
    return function


def _run(function, server, loop):
    """All run in one event loop, since libraries keep connections, which belong to a loop."""
    result = function(server)
    if inspect.iscoroutine(result):
        loop.run(asyncio.wait_for(result, 60))


def _where(error):
    """The scenario's own line."""
    here = os.path.dirname(os.path.abspath(__file__))
    frames = [f for f in traceback.extract_tb(error.__traceback__) if os.path.dirname(f.filename) == here and f.filename != __file__]
    return f"{os.path.basename(frames[0].filename)}:{frames[0].lineno}: {frames[0].line}: " if frames else ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--base-url", required=True, help="such as http://127.0.0.1:8000/v1")
    parser.add_argument("--busy-url", default="", help="see README.md; scenarios that need it are left out without")
    parser.add_argument("names", nargs="*", help="scenarios; all if there are none")
    args = parser.parse_args()
    if unknown := set(args.names) - set(_scenarios):
        sys.exit(f"no scenario {', '.join(sorted(unknown))}; there are {', '.join(_scenarios)}")
    server = Server(args.base_url.rstrip("/"), busy_url=args.busy_url.rstrip("/"))
    server.model = json.loads(server.get("/v1/models"))["data"][0]["id"]
    chosen = {name: f for name, f in _scenarios.items() if not args.names or name in args.names}
    chosen = {name: f for name, f in chosen.items() if server.busy_url or not name.startswith("busy_")}
    failed, loop = 0, asyncio.Runner()
    for name, function in chosen.items():
        line, begin = {"name": name, "ok": True}, time.monotonic()
        try:
            _run(function, server, loop)
        except Exception as e:
            failed += 1
            line |= {"ok": False, "error": f"{_where(e)}{type(e).__name__}: {e}"[:2000]}
        print(json.dumps(line | {"seconds": round(time.monotonic() - begin, 3)}), flush=True)
    loop.close()
    print(json.dumps({"scenarios": len(chosen)}))
    sys.exit(1 if failed else 0)
