"""Prints the Debian packages that the named ones need at run time, themselves included, one a line.

Reads `apt-cache dumpavail` on standard input. What the build takes from the machine (compiler, JDK, Python, Perl, base
libraries) and what bazel-bootstrap names but does not need here is left out.
"""

import re
import sys

SKIP = re.compile(
    r"^(build-essential|gcc|g\+\+|cpp|binutils|make|dpkg|perl"
    r"|lib(perl|gcc-\d+|stdc\+\+-\d+|asan|tsan|ubsan|lsan|hwasan|gomp|itm|quadmath|cc1|isl|mpc|mpfr|gmp|binutils|ctf|gprofng"
    r"|sframe|dpkg|crypt|linux|python|x11|xau|xcb|xdmcp|ssl|eclipse|jetty|ant-|bcprov|jgit)"
    r"|default-j|openjdk|java-common|ca-cert|python3|unzip|zlib1g-dev|node-|libjs-|async-profiler$)"
)


def parse(text):
    """Returns each package's Depends line, and for each virtual package one that provides it."""
    depends, provider = {}, {}
    for block in text.split("\n\n"):
        field = dict(re.findall(r"^(Package|Depends|Provides): (.*)", block, re.M))
        if "Package" not in field:
            continue
        depends[field["Package"]] = field.get("Depends", "")
        for name in re.findall(r"(?:^|, )([^ ,(]+)", field.get("Provides", "")):
            provider.setdefault(name, field["Package"])
    return depends, provider


def closure(wanted, depends, provider):
    seen, todo = set(), list(wanted)
    while todo:
        name = todo.pop()
        name = name if name in depends else provider.get(name)
        if name is None or name in seen or SKIP.match(name):
            continue
        seen.add(name)
        todo += [re.split(r"[ (:|]", dep.strip())[0] for dep in depends[name].split(",") if dep.strip()]
    return seen


def main():
    depends, provider = parse(sys.stdin.read())
    found = closure(sys.argv[1:], depends, provider)
    missing = set(sys.argv[1:]) - found
    if missing:
        sys.exit(f"not in the package lists: {', '.join(sorted(missing))}")
    print("\n".join(sorted(found)))


if __name__ == "__main__":
    main()
