"""Unpacks NIXL's library with its UCX backend, out of a wheel on PyPI, into the current folder.

The wheel is taken from the cache that libs/nixl/capi/capitest keeps, if it has the right digest; else pip downloads it, and it goes
into that cache as well.
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

FOLDERS = [".nixl_cu12.mesonpy.libs", "nixl_cu12.libs", "nixl_cu12.libs/ucx"]
PLUGIN = ".nixl_cu12.mesonpy.libs/plugins/libplugin_UCX.so"


def digest(path):
    sum = hashlib.sha256()
    with open(path, "rb") as f:
        for piece in iter(lambda: f.read(1 << 20), b""):
            sum.update(piece)
    return sum.hexdigest()


def cache_folder():
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(base) / "switchyard" / "nixl"


def run_pip(arguments):
    pips = [[sys.executable, "-m", "pip"], ["pip3"], ["pip"]]
    for pip in pips:
        if shutil.which(pip[0]) and subprocess.run(pip + ["--version"], capture_output=True).returncode == 0:
            subprocess.run(pip + arguments, check=True, stdout=sys.stderr)
            return
    sys.exit(f"no pip to download it with (tried {', '.join(' '.join(p) for p in pips)})")


def download(args, folder):
    """The wheel for one Python is taken everywhere: its libraries do not need Python."""
    run_pip(["download", "--quiet", "--no-deps", "--only-binary", ":all:", "--implementation", "cp", "--python-version", "3.11",
             "--abi", "cp311", "--platform", "manylinux_2_28_x86_64", "--dest", folder, args.project])
    wheel = pathlib.Path(folder) / args.wheel
    if digest(wheel) != args.sha256:
        sys.exit(f"{args.wheel} has sha256 {digest(wheel)}, want {args.sha256}")
    return wheel


def keep(wheel, cached):
    """Gives the wheel to the next one who needs it; a cache that cannot be written costs only a download."""
    try:
        cached.parent.mkdir(parents=True, exist_ok=True)
        tmp = cached.parent / f".{cached.name}.{os.getpid()}"
        shutil.copyfile(wheel, tmp)
        tmp.replace(cached)
    except OSError as e:
        print(f"not kept in the cache: {e}", file=sys.stderr)


def unpack(wheel):
    with zipfile.ZipFile(wheel) as z:
        for name in z.namelist():
            folder, _, file = name.rpartition("/")
            if name == PLUGIN or (folder in FOLDERS and ".so" in file):
                z.extract(name)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--project", required=True, help="PyPI project and version, as name==version")
    parser.add_argument("--wheel", required=True, help="the wheel's file name")
    parser.add_argument("--sha256", required=True)
    args = parser.parse_args()

    cached = cache_folder() / args.wheel
    if cached.is_file() and digest(cached) == args.sha256:
        unpack(cached)
        return
    with tempfile.TemporaryDirectory(dir=".") as tmp:
        wheel = download(args, tmp)
        keep(wheel, cached)
        unpack(wheel)


if __name__ == "__main__":
    main()
