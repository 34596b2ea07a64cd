"""NVIDIA's NIXL library that tests need, as a repository of its own: @nixl_wheel."""

def _repository_impl(rctx):
    result = rctx.execute(
        [
            "python3",
            rctx.path(rctx.attr._fetch),
            "--project=nixl-cu12==1.5.1",
            "--wheel=nixl_cu12-1.5.1-cp311-cp311-manylinux_2_28_x86_64.whl",
            "--sha256=341d0dfa499f941c054614252f1d8047d1380e33f29c87707372ff5ec7d3779a",
        ],
        environment = {
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": str(rctx.path(rctx.attr._pypi).dirname),
        },
        timeout = 1800,
    )
    if result.return_code:
        fail("the NIXL library cannot be had: %s" % result.stderr)
    rctx.file("BUILD.bazel", """filegroup(
    name = "files",
    srcs = glob(["**/*.so*"]),
    visibility = ["//visibility:public"],
)
""")

_repository = repository_rule(
    implementation = _repository_impl,
    attrs = {
        "_fetch": attr.label(default = "//tools/bazel/nixl:fetch.py"),
        "_pypi": attr.label(default = "//tools/bazel/pypi:pypi.py"),
    },
)

def _extension_impl(_mctx):
    _repository(name = "nixl_wheel")

nixl = module_extension(implementation = _extension_impl)

def _links_impl(ctx):
    links = []
    for file in ctx.files.srcs:
        # ../repository/folder/file: the folders lie beside each other, as the libraries look for each other.
        link = ctx.actions.declare_file(file.short_path.split("/", 2)[2])
        ctx.actions.symlink(output = link, target_file = file)
        links.append(link)
    return [DefaultInfo(files = depset(links), runfiles = ctx.runfiles(links))]

# An external repository's folder has a name that Bazel makes up; this gives the files a path that .bazelrc can name.
nixl_links = rule(
    implementation = _links_impl,
    attrs = {"srcs": attr.label_list(allow_files = True, mandatory = True)},
)
