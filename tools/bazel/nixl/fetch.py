"""Unpacks NIXL's library with its UCX backend, out of a wheel on PyPI, into the current folder.

The wheel is taken from the cache that libs/nixl/capi/capitest keeps, if it has the right digest; else pip downloads it, and it goes
into that cache as well.
"""

import argparse
import pathlib
import sys
import tempfile
import zipfile

import pypi

FOLDERS = [".nixl_cu12.mesonpy.libs", "nixl_cu12.libs", "nixl_cu12.libs/ucx"]
PLUGIN = ".nixl_cu12.mesonpy.libs/plugins/libplugin_UCX.so"


def download(args, folder):
    """The wheel for one Python is taken everywhere: its libraries do not need Python."""
    pypi.download(["--implementation", "cp", "--python-version", "3.11", "--abi", "cp311", "--platform", "manylinux_2_28_x86_64",
                   "--dest", folder, args.project])
    wheel = pathlib.Path(folder) / args.wheel
    if pypi.digest(wheel) != args.sha256:
        sys.exit(f"{args.wheel} has sha256 {pypi.digest(wheel)}, want {args.sha256}")
    return wheel


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

    cached = pypi.cache_folder("nixl") / args.wheel
    if cached.is_file() and pypi.digest(cached) == args.sha256:
        unpack(cached)
        return
    with tempfile.TemporaryDirectory(dir=".") as tmp:
        wheel = download(args, tmp)
        pypi.keep(wheel, cached)
        unpack(wheel)


if __name__ == "__main__":
    main()
