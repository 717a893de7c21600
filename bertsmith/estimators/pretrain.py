"""Pre-training in one call: texts → a vocabulary, a corpus and a BERT."""

import dataclasses
import difflib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bertsmith.config import check_needs, from_mapping, read_recipe, spelling
from bertsmith.data.corpus_build import build_corpus, check_corpus_out
from bertsmith.data.documents import TextsInMemory
from bertsmith.data.encoded_texts import as_items, is_table, name_type
from bertsmith.data.json_rows import list_names
from bertsmith.data.settings import CorpusSettings
from bertsmith.data.sources import Source
from bertsmith.data.table_rows import TableRows, check_names_file
from bertsmith.data.text_files import IN_MEMORY
from bertsmith.errors import ConfigError, InputError, as_arguments
from bertsmith.estimators.pretrain_inputs import PretrainInputs, describe_inputs
from bertsmith.estimators.rows import plain_column
from bertsmith.estimators.training_views import default_verbosity, training_view
from bertsmith.model.hub import find_tokenizer
from bertsmith.pretraining.job import OF_THE_COMMAND, PretrainJob
from bertsmith.pretraining.run import run_pretraining
from bertsmith.pretraining.summary import describe_pretraining
from bertsmith.system.counts import count_noun
from bertsmith.system.paths import with_name_of_its_own
from bertsmith.system.processes import LocalProcesses
from bertsmith.tokenization.auto import load_tokenizer
from bertsmith.training.callback import Callback
from bertsmith.training.findings import find_plateau
from bertsmith.training.run_folder import RunFolder
from bertsmith.vocabulary.settings import TokenizerSettings
from bertsmith.vocabulary.train import write_tokenizer

AnyPath = str | os.PathLike[str]
CORPUS_OPTIONS = [field.name for field in dataclasses.fields(CorpusSettings)]
"""Arguments of `pretrain` that are options of `bertsmith corpus build`."""
RECIPE_TABLES = ("model", "pretraining", "training", "optim")
"""Tables of a recipe (a TOML file of settings); their keys are arguments of `pretrain`."""


@dataclass(frozen=True, repr=False)
class Pretrained:
    """The result of `pretrain`; it may be passed wherever the path of the model is expected."""

    out: Path
    """The model's folder."""
    corpus: Path
    """The folder of the corpus that the model was trained on."""
    figures: Mapping[str, Any]
    """The summary of the run, as `bertsmith pretrain --json` prints it."""

    def __fspath__(self) -> str:
        return str(self.out)

    def __repr__(self) -> str:
        figures = self.figures
        parts = [
            f"{count_noun(self.steps, 'step')} in {figures['elapsed_seconds'] / 60:.1f} minutes"
        ]
        if (loss := figures.get("held_out_mlm_loss")) is not None:
            parts.append(f"eval loss of masked LM {loss:.3f}")
        if (entropy := figures.get("held_out_unigram_entropy")) is not None:
            parts.append(f"token frequency alone {entropy:.3f}")
        if find_plateau(figures) is not None:
            parts.append("no better than token frequencies yet: train longer")
        return f"<Pretrained '{self.out}': {', '.join(parts)}>"

    @property
    def steps(self) -> int:
        """The number of updates of the weights."""
        return int(self.figures["steps"])


def pretrain(
    texts: AnyPath | Iterable[Any] | None = None,
    *,
    out: AnyPath | None = None,
    recipe: AnyPath | None = None,
    corpus: AnyPath | None = None,
    tokenizer: AnyPath | None = None,
    vocab_size: int = TokenizerSettings.vocab_size,
    show_progress: bool | None = None,
    callbacks: Sequence[Callback] = (),
    **settings: Any,
) -> Pretrained:
    """Learn a vocabulary from texts, build a corpus, and pre-train a BERT on it.

    >>> model = pretrain("reviews.txt", minutes=15, vocab_size=8000)  # doctest: +SKIP
    >>> model  # doctest: +SKIP
    <Pretrained 'runs/reviews-bert': 4,270 steps in 15.0 minutes, eval loss of masked LM 3.739, …>

    The vocabulary and the corpus are saved beside the model: for the model `runs/reviews-bert`, in
    `runs/reviews-tokenizer` and `runs/reviews-corpus`.

    Args:
        texts: a file, folder or pattern, or a list of `pathlib.Path`s, as for `bertsmith corpus
            build`; or texts in memory, each a document: a list, an array, a column, a table or
            rows. They are read several times, a portion at a time. An iterator can be read only
            once, so it needs a `tokenizer` or `from_`. None if `corpus` is given.
        out: folder of the model; by default `runs/NAME-bert` for a file called NAME or a corpus
            called NAME-corpus, else `runs/my-bert`.
        recipe: the name of one of bertsmith's recipes, or the path of a .toml file; by default
            "quarter-hour", or with `from_` "continue", which sets no size of the model.
        corpus: folder of an existing corpus.
        tokenizer: folder of an existing tokenizer for the texts, or "org/name" on the Hugging Face
            hub; by default that of `from_` if it is given, otherwise a vocabulary is learned from
            the texts.
        vocab_size: size of the vocabulary to learn, in tokens.
        show_progress: show each part of the work, the run and its scores; by default yes, unless
            the environment variable BERTSMITH_VERBOSE is 0.
        callbacks: objects that receive each entry of the run's journal.
        settings: options of `bertsmith pretrain`, which replace those of the recipe: minutes or
            steps, preset, max_length, seed, from_, ...; `resume` continues a stopped run, and
            `overwrite` replaces an earlier run. Also options of `bertsmith corpus build`:
            text_column, the column of texts in tables ("text"), deduplicate, errors, ...

    Raises:
        InputError: a file or text cannot be read, or there is too little text.
        ConfigError: a setting is unknown or not allowed, or a folder to write is not empty.
        CorpusError: the folder `corpus` is not complete, or does not match the tokenizer.
        CheckpointError: the folder `from_` holds no complete model.
        TrainingError: the run had to end, for example because the loss became NaN.
        Interrupted: Ctrl-C was pressed. If the model has been trained for a step, a checkpoint was
            saved, from which `resume=True` continues. Before that, the same call uses the
            vocabulary and the corpus that are already built.
    """
    verbosity = default_verbosity() if show_progress is None else int(show_progress)
    with training_view(verbosity) as view:
        resume, overwrite = (settings.pop(name, False) for name in ("resume", "overwrite"))
        corpus_options = {name: settings.pop(name) for name in CORPUS_OPTIONS if name in settings}
        reading = from_mapping(CorpusSettings, corpus_options, "pretrain")
        # Checks the size of the vocabulary; which files it is learned from does not matter yet.
        learning = {"files": [str(IN_MEMORY)], "vocab_size": vocab_size}
        vocab_size = from_mapping(TokenizerSettings, learning, "pretrain").vocab_size
        _check_sources(texts, corpus, tokenizer, corpus_options)
        source_texts = () if texts is None else as_texts(texts, reading.text_column)
        if isinstance(source_texts, TextsInMemory):
            files: tuple[str, ...] = (str(IN_MEMORY),)
            named_after: AnyPath = "my"
        else:
            files = source_texts
            named_after = corpus or files[0]
        model_folder, new_tokenizer_folder, corpus_folder = _name_folders(named_after, out, corpus)
        if recipe is None:
            recipe = "quarter-hour" if settings.get("from_") is None else "continue"
        job = _build_job(corpus_folder, recipe, settings)
        learned = {"corpus": corpus, "tokenizer": tokenizer, "from_": job.from_}
        _check_vocab_size(vocab_size, learned)
        run = RunFolder(model_folder)
        run.check(resume=resume, overwrite=overwrite)
        # A call that is stopped before the run has begun leaves a hidden file. It says from which
        # inputs the call built its tokenizer and corpus. The same call then uses both again.
        inputs_file = PretrainInputs(model_folder.with_name(f".{model_folder.name}.inputs.json"))
        inputs = None
        # A run that is resumed reads only its corpus, and none of the inputs.
        is_built = resume and corpus_folder.exists()
        # The tokenizer that exists already; None if a vocabulary is to be learned.
        tokenizer_folder = job.from_ if tokenizer is None else Path(tokenizer)
        if tokenizer_folder is not None and texts is not None and not is_built:
            tokenizer_folder = find_tokenizer(tokenizer_folder)
        if texts is not None and not isinstance(texts, Iterator) and not is_built:
            inputs = describe_inputs(source_texts, tokenizer_folder, vocab_size, reading)
        # The folders, "tokenizer" and "corpus", that an earlier call with the same inputs built.
        built = [] if inputs is None or overwrite else inputs_file.read_built(inputs)
        has_corpus = is_built or ("corpus" in built and corpus_folder.exists())
        if texts is not None and not has_corpus:
            # The folder is checked before a vocabulary is learned, which may take minutes.
            paths = () if isinstance(source_texts, TextsInMemory) else files
            check_corpus_out(corpus_folder, overwrite, paths)
            if tokenizer_folder is None and isinstance(texts, Iterator):
                raise InputError(
                    f"texts: found {name_type(texts)}, which can be read once, but the vocabulary "
                    "and the corpus each read all texts. Give a list, or the tokenizer to use."
                )
            if tokenizer_folder is None:
                tokenizer_settings = TokenizerSettings(
                    files=files,
                    vocab_size=vocab_size,
                    compare=False,
                    text_column=reading.text_column,
                    errors=reading.errors,
                )
                tokenizer_folder = new_tokenizer_folder
                if not ("tokenizer" in built and tokenizer_folder.exists()):
                    inputs_file.remove()  # it describes the tokenizer that is replaced here
                    write_tokenizer(
                        tokenizer_settings, tokenizer_folder, source_texts, overwrite=overwrite
                    )
                    inputs_file.write(inputs, ["tokenizer"])
            build_corpus(
                source_texts,
                load_tokenizer(tokenizer_folder),
                corpus_folder,
                reading,
                executor=LocalProcesses(),
                overwrite=overwrite,
            )
            if inputs is not None:
                inputs_file.write(inputs, ["tokenizer", "corpus"])
        try:
            figures = run_pretraining(
                job,
                model_folder,
                resume=resume,
                overwrite=overwrite,
                callbacks=[*view.callbacks, *callbacks],
                resume_command="the same call with resume=True",
            )
        finally:
            if run.has_run:  # from now on resume=True continues the run, without the inputs
                inputs_file.remove()
        view.show_report(as_arguments("\n".join(describe_pretraining(figures))))
    return Pretrained(model_folder, corpus_folder, figures)


def _check_sources(
    texts: object, corpus: AnyPath | None, tokenizer: AnyPath | None, corpus_options: Iterable[str]
) -> None:
    """Check that either texts or a corpus are given, and no argument that the source leaves unused.

    Args:
        corpus_options: names of the given options of `bertsmith corpus build`.

    Raises:
        ConfigError: both or none of the two are given, or arguments to build a given corpus.
    """
    if (texts is None) == (corpus is None):
        advice = "give one of the two" if corpus is None else "give only one of the two"
        raise ConfigError(f"texts, corpus: {advice}.")
    unused = [*(["tokenizer"] if tokenizer is not None else []), *corpus_options]
    if corpus is not None and unused:
        raise ConfigError(
            f"{', '.join(unused)}: used only to build a corpus, and {corpus} is built already. "
            "Leave this out, or give texts instead of the corpus."
        )


def _check_vocab_size(vocab_size: int, learned: Mapping[str, object]) -> None:
    """Check that no size is asked for if the vocabulary is learned already.

    Args:
        learned: the arguments that bring a vocabulary, by name; None for those that are not given.

    Raises:
        ConfigError: `vocab_size` is given beside such an argument.
    """
    for name, value in learned.items():
        if value is not None and vocab_size != TokenizerSettings.vocab_size:
            raise ConfigError(
                f"vocab_size: found {vocab_size} beside {name}, whose vocabulary is learned "
                "already. Leave one of the two out."
            )


def _name_folders(
    named_after: AnyPath, out: AnyPath | None, corpus: AnyPath | None
) -> tuple[Path, Path, Path]:
    """Return the folders of model, tokenizer and corpus.

    Tokenizer and corpus are named after the model's folder `out`. Without `out`, all three are
    named after `named_after`, the first file of texts or the folder of the corpus.

    Raises:
        ConfigError: `out` is `/`, the only folder without a name.
    """
    stem = Path(named_after).name.split(".")[0].replace("*", "").removesuffix("-corpus") or "my"
    model = Path("runs", f"{stem}-bert") if out is None else with_name_of_its_own(Path(out))
    if not model.name:
        raise ConfigError(
            f"out: {model} is the folder of the whole disk. Choose a folder in it, such as "
            f"{model / 'my-bert'}."
        )
    stem = model.name.removesuffix("-bert")
    corpus_folder = model.with_name(f"{stem}-corpus") if corpus is None else Path(corpus)
    return model, model.with_name(f"{stem}-tokenizer"), corpus_folder


def _build_job(corpus: Path, recipe: AnyPath, settings: Mapping[str, Any]) -> PretrainJob:
    """Build the settings of a run from a recipe; `settings` replace values of the recipe."""
    # Keys such as `out` are for one call of `bertsmith pretrain`; here they are ignored.
    ignored = ("corpus", *OF_THE_COMMAND)
    recipe_values = {
        key: value
        for key, value in read_recipe(Path(recipe), kinds=("pretrain",)).items()
        if key not in ignored
    }
    needs = recipe_values.pop("needs", [])  # settings that the call must give
    base = from_mapping(PretrainJob, recipe_values, os.fspath(recipe), default=PretrainJob(corpus))
    table_of_argument = {
        field.name: table_name
        for table_name in RECIPE_TABLES
        for field in dataclasses.fields(getattr(base, table_name))
    }
    tables: dict[str, Any] = {table_name: {} for table_name in RECIPE_TABLES}
    for name, value in settings.items():
        if name in table_of_argument:
            # In a table, a key has no `_` at its end, as `from_` has in Python.
            tables[table_of_argument[name]][spelling(name)] = value
        elif name == "from_":
            tables["from"] = None if value is None else os.fspath(value)
        else:
            argument_names = [*table_of_argument, "from_", *CORPUS_OPTIONS, "resume", "overwrite"]
            near = difflib.get_close_matches(name, argument_names, n=1)
            hint = (
                f"Did you mean '{near[0]}'?" if near else f"There are: {', '.join(argument_names)}."
            )
            raise ConfigError(f"pretrain: there is no argument '{name}'. {hint}")
    # A recipe may set `minutes` where the call sets `steps`, or the reverse; the call decides.
    for given, replaced in (("minutes", "steps"), ("steps", "minutes")):
        if given in settings and replaced not in settings:
            tables["training"][replaced] = None
    job = from_mapping(PretrainJob, tables, "pretrain", default=base)
    check_needs(needs, job, os.fspath(recipe))
    return job


def as_texts(texts: Any, column: str) -> tuple[str, ...] | TextsInMemory:
    """Return the files that `texts` names, or the texts in memory.

    A string or a path is a file, and a list of paths is a list of files. Strings in a list are
    texts. The texts of a table or of rows are in `column`.

    Raises:
        InputError: a string names no file, or the first string of a list looks like a file's name.
    """
    if isinstance(texts, str):
        check_names_file(texts)
    if isinstance(texts, str | os.PathLike):
        return (os.fspath(texts),)
    first = texts[0] if isinstance(texts, Sequence) and texts else None
    if isinstance(first, os.PathLike):
        return tuple(map(os.fspath, texts))
    if (
        isinstance(first, str)
        and not any(map(str.isspace, first))
        and Source.from_name(Path(first))  # None unless the name ends as that of a file of texts
    ):
        raise InputError(
            f"texts[0]: found '{first}', the name of a file, but strings in a list are texts. Give "
            "files as paths: [pathlib.Path(name), ...]."
        )
    return TextsInMemory(partial(iter_texts, texts, column))


def iter_texts(texts: Any, column: str) -> Iterator[Any]:
    """Yield the texts of a list, an array or a column, or those in `column` of a table or rows.

    Raises:
        InputError: the table or a row has no such column.
    """
    if is_table(texts) or isinstance(texts, Mapping):
        names = TableRows(texts).names
        # A table that is streamed may not know the names of its columns.
        if names or isinstance(texts, Sized):
            check_column(column, names, "texts")
        texts = texts[column]
    for index, item in enumerate(as_items(plain_column(texts), "texts")):
        if isinstance(item, Mapping):
            check_column(column, item, f"texts[{index}]")
            yield item[column]
        else:
            yield item


def check_column(column: str, names: Iterable[Any], location: str) -> None:
    """Check that a table or row has a column.

    Args:
        names: the names of the columns that it has.
        location: the place of the table or row in messages, such as "texts[3]".

    Raises:
        InputError: the column is missing.
    """
    if column not in names:
        shown = list_names(list(map(str, names))) or "none"
        raise InputError(
            f"{location}: no column '{column}', found: {shown}. Choose one with text_column."
        )
