"""What several rooms' tests share: real data, a small corpus, a command as it is typed."""

import os
import re
import signal
import sys

# Models here are tiny: more threads only wait for each other, all the more where several tests run
# at once. What needs threads or processes asks for them. Programs that tests start inherit this.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# On a GPU, a resumed run equals the other but for rounding; tests/model/test_cuda.py is for one.
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import refusals
from browser import find_faults, open_browser
from computing import CACHE_KEY, CHOICES, ComputingPlugin, pin
from hypothesis import settings
from own_variables import note_variable, restore_environment

from bertsmith.cli import main
from bertsmith.data.corpus_build import build_corpus
from bertsmith.data.settings import CorpusSettings
from bertsmith.evaluation import side_by_side
from bertsmith.model.attention_paths import measured_paths
from bertsmith.system.cores import available_cores
from bertsmith.tokenization.wordpiece import WordPieceTokenizer

# The same examples on every run, however slow the machine: red means that a change broke it.
settings.register_profile("steady", deadline=None, derandomize=True)
settings.load_profile("steady")

# A shell that runs the tests in the background has them ignore Ctrl-C, which some of them send.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Two models side by side are timed for as short as can be.
side_by_side.TIMED_SECONDS = 0.0


PASSED: set[str] = set()
"""The cases that passed."""


def pytest_addoption(parser):
    parser.addoption("--write-wordings", action="store_true", help="see refusals.py")
    parser.addoption(
        "--computing", choices=CHOICES, default="fp32-explicit", help="see computing.py"
    )
    parser.addoption("--only-computing", action="store_true", help="see computing.py")


def pytest_configure(config):
    refusals.written = {} if config.getoption("--write-wordings") else None
    plugin = ComputingPlugin(CHOICES[config.getoption("--computing")])
    config.pluginmanager.register(plugin, "computing")
    sys.addaudithook(note_variable)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """Return the number of workers for `-n auto`: one more than cores.

    Some tests wait for other processes, for example until ranks notice that one of them is silent;
    the additional worker uses the core meanwhile. Two threads of a core count as two cores.
    """
    return 1 + available_cores()


REPEATED_TESTS = pytest.StashKey[set[str]]()


def repeated_tests(config) -> set[str]:
    """The tests that asked for a choice that this kind of computer makes in another way."""
    if REPEATED_TESTS not in config.stash:
        cache = cache_of(config)
        noted = None if cache is None else cache.get(CACHE_KEY, None)
        if noted is None:
            raise pytest.UsageError(
                "--only-computing: run all tests first, with pytest's cache: they note there which "
                "of them ask for a choice"
            )
        choices = CHOICES[config.getoption("--computing")]
        config.stash[REPEATED_TESTS] = {
            test for test, asked in noted.items() if choices.repeats(test, asked)
        }
    return config.stash[REPEATED_TESTS]


def pytest_ignore_collect(collection_path, config):
    if not config.getoption("--only-computing") or not collection_path.name.startswith("test_"):
        return None
    path = collection_path.relative_to(config.rootpath).as_posix()
    return path not in {test.partition("::")[0] for test in repeated_tests(config)} or None


def pytest_collection_modifyitems(config, items):
    if config.getoption("--only-computing"):
        repeated = repeated_tests(config)
        items[:] = [
            item
            for item in items
            if item.nodeid in repeated and item.get_closest_marker("same_on_all_computers") is None
        ]
    # The long ones first, so that at the end no core is idle while another one runs them.
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """Take over what a worker of pytest-xdist has noted."""
    plugin = computing_plugin(node.config)
    plugin.ran |= set(node.workeroutput["ran"])
    plugin.asked |= node.workeroutput["asked"]
    if refusals.written is not None:
        for case, messages in node.workeroutput["wordings"].items():
            refusals.written.setdefault(case, []).extend(messages)


def pytest_runtest_logreport(report):
    if report.when == "call" and report.passed:
        PASSED.add(report.nodeid)


def pytest_sessionfinish(session, exitstatus):
    plugin = computing_plugin(session.config)
    asked = {test: sorted(choices) for test, choices in sorted(plugin.asked.items())}
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["wordings"] = refusals.written
        session.config.workeroutput["ran"] = sorted(plugin.ran)
        session.config.workeroutput["asked"] = asked
        return
    if refusals.written and exitstatus == 0:
        options = session.config.option
        is_partial = bool(options.keyword) or any("::" in path for path in session.config.args)
        refusals.write_tables(refusals.written, PASSED, is_partial=is_partial)
    is_whole_run = session.config.args_source is pytest.Config.ArgsSource.TESTPATHS
    cache = cache_of(session.config)
    if cache is not None and is_whole_run and not session.config.getoption("--only-computing"):
        noted = cache.get(CACHE_KEY, {})  # also of other runs, such as of slow tests
        others = {test: choices for test, choices in noted.items() if test not in plugin.ran}
        cache.set(CACHE_KEY, others | asked)


def cache_of(config) -> pytest.Cache | None:
    """Pytest's cache; None with `-p no:cacheprovider`."""
    return getattr(config, "cache", None)


def computing_plugin(config) -> ComputingPlugin:
    return config.pluginmanager.get_plugin("computing")


SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
SYLLABLES = ["ba", "ce", "di", "fo", "gu", "ha", "ke", "li", "mo", "nu", "pa", "re"]
WORDS = [first + second for first in SYLLABLES for second in SYLLABLES]


@pytest.fixture(scope="session", autouse=True)
def _folders(tmp_path_factory):
    refusals.folders = tmp_path_factory.getbasetemp()


# Their names make them the first fixtures that are set up, and the last that are torn down.
_environment_of_module = pytest.fixture(scope="module", autouse=True)(restore_environment)
_environment_of_test = pytest.fixture(autouse=True)(restore_environment)


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    """No test sees what stands where pytest was started, such as `runs`."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real public data, or a skipped test where it is absent."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    path = Path(os.environ.get("BERTSMITH_DATA", default))
    if not path.is_dir():
        pytest.skip(f"no real data at {path}; set BERTSMITH_DATA to its folder")
    return path


@pytest.fixture(scope="session")
def corpus_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of 40 small documents over 144 words, each document with 24 words of its own."""
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("corpus")
    documents = []
    for _ in range(40):
        words = rng.choice(WORDS, 24, replace=False)
        sentences = [
            " ".join(rng.choice(words, rng.integers(3, 11))).capitalize() + "."
            for _ in range(rng.integers(2, 14))
        ]
        documents.append(" ".join(sentences))
    (folder / "text.txt").write_text("\n\n".join(documents), encoding="utf-8")
    tokenizer = WordPieceTokenizer([*SPECIAL_TOKENS, *WORDS, "."])
    build_corpus(
        [folder / "text.txt"],
        tokenizer,
        folder / "built",
        CorpusSettings(held_out=0.15),
    )
    return folder / "built"


@pytest.fixture
def remember(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Pin other measurements than the session's for one test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    measured_paths.cache_clear()
    yield pin
    measured_paths.cache_clear()


@pytest.fixture
def typed(capsys):
    """Run a command line; gives what it printed: `out` and `err`."""

    def run(*words):
        capsys.readouterr()
        main([str(word) for word in words])
        captured = capsys.readouterr()
        assert not re.search(r"\ue0f0|\\ue0f0", captured.out + captured.err)  # options are spelled
        return captured

    return run


@pytest.fixture
def bertsmith(typed):
    """Run a command line; gives its standard output."""
    return lambda *words: typed(*words).out


@pytest.fixture
def refused(capsys):
    """Run a command line that must fail; gives the one line of its message (see refusals.py)."""

    def run(*words, worded=True):
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main([str(word) for word in words])
        captured = capsys.readouterr()
        assert (caught.value.code, captured.out) == (2, "")
        line = captured.err.splitlines()[-1]
        assert "\ue0f0" not in captured.err  # options are spelled
        assert line.startswith("bertsmith")  # so the message has one line
        refusals.check_message(line, worded=worded)
        return line

    return run


@pytest.fixture(scope="module")
def browser(pytestconfig):
    """Chromium, or None where it is absent, or with --only-computing: a look is not computed."""
    if pytestconfig.getoption("--only-computing"):
        yield None
        return
    with open_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def check_page(browser):
    """Check that a page loads nothing, holds no text as markup, and looks right in Chromium."""

    def check(path):
        html = path.read_text(encoding="utf-8")
        assert not re.search(r"<(script|link|iframe|img)\b|\b(src|href)=|url\(|@import", html)
        assert not re.search(r'\b(d|x|y|cx|cy|x1|y1)="[^"]*(nan|inf)', html)
        if browser is not None:
            with browser.new_page() as page:
                assert find_faults(page, path) == []

    return check
