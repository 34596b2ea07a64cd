"""The files that tests of tokenizers need, as a repository of its own: @tokenizer_files."""

def _repository_impl(rctx):
    result = rctx.execute(
        [
            "python3",
            rctx.path(rctx.attr._fetch),
            "--pins",
            rctx.path(rctx.attr._pins),
            "--copy-to=.",
        ],
        environment = {"PYTHONDONTWRITEBYTECODE": "1"},
        timeout = 1800,
    )
    if result.return_code:
        fail("the files for tests of tokenizers cannot be had: %s" % result.stderr)
    rctx.file("BUILD.bazel", """filegroup(
    name = "files",
    srcs = glob(["*"], exclude = ["BUILD.bazel", "REPO.bazel"]),
    visibility = ["//visibility:public"],
)
""")

_repository = repository_rule(
    implementation = _repository_impl,
    attrs = {
        "_fetch": attr.label(default = "//libs/tokenizer/testfiles:fetch.py"),
        "_pins": attr.label(default = "//libs/tokenizer/testfiles:pins.txt"),
    },
)

def _extension_impl(_mctx):
    _repository(name = "tokenizer_files")

tokenizers = module_extension(implementation = _extension_impl)

def _links_impl(ctx):
    links = []
    for file in ctx.files.srcs:
        link = ctx.actions.declare_file(file.basename)
        ctx.actions.symlink(output = link, target_file = file)
        links.append(link)
    return [DefaultInfo(files = depset(links), runfiles = ctx.runfiles(links))]

# An external repository's folder has a name that Bazel makes up; this gives the files a path that .bazelrc can name.
tokenizer_links = rule(
    implementation = _links_impl,
    attrs = {"srcs": attr.label_list(allow_files = True, mandatory = True)},
)
