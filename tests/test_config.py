import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest
from refusals import refuses

from bertsmith.commands.flags import parse_with_recipe
from bertsmith.commands.settings.finetune import parse as parse_finetuning
from bertsmith.config import RECIPES, from_mapping, read_recipe, shipped_recipes, to_jsonable
from bertsmith.errors import ConfigError


@dataclass(frozen=True)
class Optim:
    learning_rate: float = 1e-3
    """How far each step goes."""

    def __post_init__(self) -> None:
        if self.learning_rate <= 0:
            raise ConfigError(f"learning_rate: found {self.learning_rate}, must be above 0.")


@dataclass(frozen=True)
class Settings:
    corpus: Path
    """The folder to read."""
    preset: Literal["tiny", "mini"] = "tiny"
    steps: int | None = None
    optim: Optim = field(default_factory=Optim)


def write(tmp_path: Path, text: str) -> str:
    path = tmp_path / "recipe.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_precedence_is_default_then_recipe_then_command_line(tmp_path):
    recipe = write(tmp_path, 'corpus = "c"\nsteps = 7\n[optim]\nlearning_rate = 3\n')
    from_recipe = parse_with_recipe(Settings, ["--recipe", recipe], "p", "d")
    assert from_recipe == Settings(Path("c"), "tiny", 7, Optim(3.0))
    args = [f"--recipe={recipe}", "--steps", "9", "--learning-rate", "2e-4"]
    on_top = parse_with_recipe(Settings, args, "p", "d")
    assert on_top == Settings(Path("c"), "tiny", 9, Optim(2e-4))


@pytest.mark.parametrize(("text", "parts", "worded"), [
    ("setps = 3", ["'setps'", "'steps'", "corpus, preset, steps, optim"], True),
    ("learning_rat = 3", ["'learning_rat'", "'[optim] learning_rate'"], True),
    ("[optim]\nsteps = 3", ["optim: unknown key 'steps'", "'steps', above the first"], True),
    ('steps = "3"', ["steps: found '3'; allowed is a whole number."], False),
    ("steps = 3.5", ["steps: found 3.5; allowed is a whole number"], False),
    ("steps = true", ["steps: found True; allowed is a whole number."], False),
    ("corpus = 3", ["corpus: found 3"], False),
    ('[optim]\nlearning_rate = "1"', ["found '1'; allowed is a number."], False),
    ('preset = "huge"', ["preset: found 'huge'", "'tiny'", "'mini'"], False),
    ("optim = 3", ["optim: found 3"], True),
    ("[optim]\nlearning_rate = -1", ["optim: learning_rate: found -1.0", "above 0"], True),
    ("steps =", ["TOML"], False),
    ("steps = 3\nsteps = 4", ["already set above"], False),
    ("[optim]\n[optim]", ["line 2", "already set above"], False),
])  # fmt: skip
def test_strict_reading_names_file_and_key(tmp_path, text, parts, worded):
    """Pydantic and tomllib word some of it."""
    recipe = write(tmp_path, text)
    with refuses(ConfigError, *parts, worded=worded) as error:
        parse_with_recipe(Settings, ["--recipe", recipe, "--corpus", "x"], "p", "d")
    assert str(error.value).startswith(f"{recipe}: ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("\n" + ".".join(["a"] * 50_000) + " = 1", "line 2"),
        ("[" + " . ".join(['"a"'] * 50_000) + "]", "100 parts"),
        ("x = {" + ".".join(["'a'"] * 50_000) + " = 1}", "100 parts"),
        ("# nothing\n" * 200_000, "1,048,576 bytes"),
    ],
)
def test_recipes_that_would_exhaust_memory_are_refused(text, part, tmp_path):
    (tmp_path / "r.toml").write_text(text)
    with refuses(ConfigError, "r.toml: ", part):
        read_recipe(tmp_path / "r.toml")


def test_a_recipe_of_windows_editors_may_begin_with_a_byte_order_mark(tmp_path):
    (tmp_path / "r.toml").write_text('corpus = "c"\nsteps = 7\n', encoding="utf-8-sig")
    assert read_recipe(tmp_path / "r.toml") == {"corpus": "c", "steps": 7}


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_a_recipe_in_utf_16_is_told_as_such(tmp_path, encoding):
    (tmp_path / "r.toml").write_text("\ufeffsteps = 7\n", encoding=encoding)
    with refuses(ConfigError, "r.toml: UTF-16", "-t UTF-8"):
        read_recipe(tmp_path / "r.toml")


def test_a_key_is_looked_for_in_the_other_tables(refused, tmp_path):
    recipe = write(tmp_path, '[model]\npreset = "tiny"\nsteps = 3\n')
    words = ("--recipe", recipe, "--corpus", "x", "--out", "y")
    assert "Did you mean '[training] steps'?" in refused("pretrain", *words)


@pytest.fixture
def usual_recursion():
    """Python's own recursion limit; a library that another test imported may have raised it."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.parametrize(("text", "parts"), [
    (f"a = 1\nb = {'[' * 5000}{']' * 5000}", ["line 2", "too deep"]),
    (f"a = {'{x = ' * 5000}1{'}' * 5000}", ["line 1", "too deep"]),
    ("a = 1\n\u00a0b = 2", ["line 2", "U+00A0", "NO-BREAK SPACE"]),
    ("a = 1\nb\u200b = 2", ["line 2", "U+200B", "ZERO WIDTH SPACE"]),
    ("a = [1,\n", ["the end of the file"]),
])  # fmt: skip
def test_what_one_does_not_see_in_a_recipe_is_named(text, parts, tmp_path, usual_recursion):
    (tmp_path / "r.toml").write_text(text, encoding="utf-8")
    with refuses(ConfigError, "r.toml: ", *parts, worded=False) as error:
        read_recipe(tmp_path / "r.toml")
    assert "recursion" not in str(error.value)


def test_a_recipe_of_the_package_is_known_by_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("albert", "albert.toml", "pretrain/albert", "pretrain/albert.toml"):
        (tmp_path / name).mkdir(parents=True)  # a folder is none
        assert read_recipe(Path(name))["model"]["family"] == "albert"
        (tmp_path / name).rmdir()
        (tmp_path / name).write_text("steps = 3")  # one's own file comes first
        assert read_recipe(Path(name)) == {"steps": 3}


def test_an_unknown_recipe_is_told_the_nearest_and_all_names(tmp_path):
    with refuses(ConfigError, "quarterhour: ", "'quarter-hour'", ".toml", " albert, "):
        parse_with_recipe(Settings, ["--recipe", "quarterhour"], "p", "d")
    (tmp_path / "bad.toml").write_bytes(b"a = 1\n\xff")
    for path, place in ((tmp_path, f"{tmp_path}: "), (tmp_path / "bad.toml", "bad.toml: byte 6 ")):
        with refuses(ConfigError, place, ".toml" if path == tmp_path else "UTF-8"):
            read_recipe(path)
    assert len(shipped_recipes()) == len(list(RECIPES.glob("*/*.toml"))), "names differ"


def test_a_command_is_told_of_its_own_recipes_alone(refused):
    line = refused("pretrain", "--recipe", "quarterhour", "--corpus", "x", "--out", "y")
    assert "'quarter-hour'" in line and "masks" not in line and "few-labels" not in line
    assert "bertsmith recipes" in refused("pretrain", "--recipe", "masks", "--out", "y")
    words = ("--corpus", "x", "--steps", "1", "--out", "y")
    line = refused("compare", "hour", "mine.toml", *words)
    assert "mine.toml: no such file. " in line and "masks" in line and "few-labels" not in line
    assert "bertsmith recipes" in refused("compare", "hour", "few-labels", *words)
    assert "quarter-hour" not in refused("finetune", "tag", "--recipe", "few-label")


def test_a_length_on_the_line_replaces_the_other_kind_of_the_recipe(tmp_path):
    flags = ["--teacher", "t", "--train", "a", "--eval", "b", "--out", tmp_path / "new"]
    words = ["--recipe", "few-labels", "--steps", "10", *map(str, flags)]
    settings, _ = parse_finetuning(words, "bertsmith finetune classify")
    assert (settings.steps, settings.epochs) == (10, None)


def test_a_recipe_for_a_teacher_says_so_where_there_is_none(refused):
    """The option that needs one was not typed."""
    words = ("--model", "m", "--train", "a", "--eval", "b", "--out", "y")
    line = refused("finetune", "classify", "--recipe", "few-labels", *words)
    assert "the recipe sets --soft-weight 0.9" in line and "--teacher" in line
    line = refused("finetune", "classify", "--soft-weight", "0.9", *words)
    assert "--soft-weight 0.9 needs a --teacher" in line and "recipe" not in line


@pytest.mark.parametrize("line", ["pretrain hour --corpus x --out y", "pretrain hour", "plan hour",
    "finetune classify few-labels --out y", "pretrain --corpus x mine.toml"])  # fmt: skip
def test_a_stray_word_is_no_recipe(refused, line):
    word = next(word for word in line.split() if word in ("hour", "few-labels", "mine.toml"))
    assert f"Did you mean --recipe {word}?" in refused(*line.split())


def test_the_package_has_all_its_files():
    package = RECIPES.parent
    project = tomllib.loads((package.parent / "pyproject.toml").read_text(encoding="utf-8"))
    globs = project["tool"]["setuptools"]["package-data"]["bertsmith"]
    shipped = {path for glob in globs for path in package.glob(glob)}
    files = {path for path in package.rglob("*.*") if path.is_file()}
    assert shipped == {path for path in files if path.suffix not in (".py", ".pyc")}


def test_what_is_written_reads_back_equal():
    settings = Settings(Path("a/b"), "mini", 3, Optim(0.5))
    assert from_mapping(Settings, to_jsonable(settings), "run.json") == settings
    with refuses(ConfigError, "run.json: 'corpus'"):
        from_mapping(Settings, {}, "run.json")


@pytest.mark.parametrize(("line", "words"), [
    ("class_weights = {spam = 3, 'no spam' = 0.5}", ("spam=3", "no spam=0.5")),
    ("class_weights = 'balanced'", ("balanced",)), ("class_weights = ['spam=3']", ("spam=3",)),
    ("[class_weights]\nspam = 3", ("spam=3",)), ("class_weights = []", ()),
])  # fmt: skip
def test_class_weights_may_be_a_table_in_a_recipe(line, words, tmp_path):
    (tmp_path / "a.toml").write_text(f"model = 'm'\ntrain = 'a.csv'\nout = 'o'\n{line}\n")
    args = ["--recipe", str(tmp_path / "a.toml"), "--eval", "b.csv"]
    assert parse_finetuning(args, "bertsmith finetune classify")[0].class_weights == words


def test_class_weights_of_another_kind_are_refused_with_those_that_a_recipe_takes(tmp_path):
    (tmp_path / "a.toml").write_text("class_weights = 3\n")
    with refuses(ConfigError, "a.toml: class_weights: found 3", "'balanced'", "{'spam': 3}"):
        parse_finetuning(["--recipe", str(tmp_path / "a.toml")], "bertsmith finetune tag")
