#!/usr/bin/env python3
"""Installs the pinned client libraries into the user's cache, and runs a program of this folder with them.

    clients.py install                              prints the folder that has them
    clients.py run openai_client.py --base-url http://127.0.0.1:8000/v1 [scenario ...]

The folder's name is a hash of the pins and of the Python that runs this, so what is there is right: a new one appears by a
rename when it is complete. Of processes that install at the same time, one waits for the other.
"""

import argparse
import contextlib
import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
NPM_FILES = ["package.json", "package-lock.json"]


def cache_folder():
    """The cache of `switchyard serve`, as libs/modelstore has it."""
    if named := os.environ.get("SWITCHYARD_CACHE"):
        return pathlib.Path(named) / "clients"
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "switchyard" / "clients"


def hash_of_pins():
    digest = hashlib.sha256(f"{sys.version_info[:2]} {sysconfig.get_platform()}\n".encode())
    for name in ["requirements.txt", *NPM_FILES]:
        digest.update((HERE / name).read_bytes())
    return digest.hexdigest()[:16]


def call(command, **more):
    if not shutil.which(command[0]):
        sys.exit(f"{command[0]} is needed to install the clients, and there is none (Debian: apt-get install npm python3-pip)")
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stdout.strip()}")


def fill(folder):
    """Installs into an empty folder; pip's and npm's own caches are left as they are set up."""
    pip = ["install", "--quiet", "--no-input", "--disable-pip-version-check", "--root-user-action=ignore", "--no-warn-conflicts"]
    call(
        [
            sys.executable,
            "-m",
            "pip",
            *pip,
            "--no-deps",
            "--only-binary",
            ":all:",
            "--ignore-installed",
            "--no-compile",
            "--target",
            folder / "python",
            "--requirement",
            HERE / "requirements.txt",
        ]
    )
    for name in NPM_FILES:
        shutil.copyfile(HERE / name, folder / name)
    call(["npm", "ci", "--silent", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=folder)


def install():
    cache = cache_folder()
    folder = cache / hash_of_pins()
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.is_dir():
            return folder
        for left in cache.glob(".fetch-*"):  # by one that was killed
            shutil.rmtree(left)
        with tempfile.TemporaryDirectory(dir=cache, prefix=".fetch-", ignore_cleanup_errors=True) as tmp:
            new = pathlib.Path(tmp) / "new"
            new.mkdir()
            fill(new)
            new.rename(folder)
    return folder


def environment(folder):
    """Nothing of the user's, nothing that asks the network beyond the server."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "OPENAI_", "LANG", "LITELLM_"))}
    return kept | {
        "SWITCHYARD_CLIENTS": str(folder),
        "PYTHONPATH": str(folder / "python"),
        "PYTHONNOUSERSITE": "1",
        "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),  # of what is used, a fifth
        "NO_PROXY": "127.0.0.1,localhost",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else it fetches one when it is imported
    }


def run(program, arguments):
    folder = install()
    command = ["node"] if program.endswith(".mjs") else [sys.executable]
    command += [str(HERE / program), *arguments]
    with contextlib.suppress(FileNotFoundError):
        os.execvpe(command[0], command, environment(folder))
    sys.exit(f"{command[0]} is needed to run {program}, and there is none")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("install")
    running = commands.add_parser("run")
    running.add_argument("program", choices=sorted(path.name for path in HERE.glob("*_client.*")))
    running.add_argument("arguments", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    if args.command == "install":
        print(install())
    else:
        run(args.program, args.arguments)


if __name__ == "__main__":
    main()
