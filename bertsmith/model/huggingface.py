"""Hugging Face folders of BERT and its relatives to models and back.

Reads every encoder of these families that transformers writes, but for relative positions, unknown
activations and decoders that are not tied to the word embedding, and writes folders that
transformers opens. Inside, the model names and fuses its weights as it likes; the table of its
`Family` is the only place that knows both spellings. A tensor whose place the model has not is
reported, never dropped in silence; an encoder that is not there in full is an error.
"""

import difflib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bertsmith.errors import SYSTEM_ADVICE, CheckpointError, ConfigError, read_error, warn_once
from bertsmith.model.bert import FAMILY as BERT
from bertsmith.model.bert import BertConfig, BertModel
from bertsmith.model.family import Family, families, family_named
from bertsmith.model.heads import (
    LABEL_HEADS,
    PAIR_HEADS,
    PRETRAINING_HEADS,
    TASK_HEADS,
    ClassificationHead,
    build_heads,
)
from bertsmith.model.meta_init import skeleton
from bertsmith.model.weights import read_weights, write_safetensors
from bertsmith.system.files import write_json
from bertsmith.system.run_state import check_finished
from bertsmith.system.sums import check_sums, has_sum, summed
from bertsmith.tokenization.tokenizer import Tokenizer

PROBLEM_TYPES = {
    "classify": "single_label_classification",
    "multi_label": "multi_label_classification",
    "regress": "regression",
}
"""What tells the heads of a sequence classifier apart."""

CHECKPOINT_FILES = (
    "*.json", "*.safetensors", "pytorch_model*.bin", "vocab.txt", "merges.txt", "*.model",
)  # fmt: skip
BUFFERS = ("position_ids", "token_type_ids")
"""Counters that older folders store beside the embeddings; they hold nothing learnt."""
SHOWN_NAMES = 8


@dataclass(frozen=True)
class LoadReport:
    """Which weights of a folder found their place, by Hugging Face's names.

    `missing` are weights that the model has and the folder has not; they start at random.
    `unused` are weights that the folder has and the model has not, by their stored names.
    `note` says whether loaded weights were changed after loading, and why.
    """

    matched: tuple[str, ...]
    missing: tuple[str, ...]
    unused: tuple[str, ...]
    note: str = ""

    def __str__(self) -> str:
        """Counts, and the first names of what was missing or left over."""
        parts = [f"{len(self.matched)} weights matched"]
        if self.missing:
            parts.append(f"{len(self.missing)} missing and new: {listed(self.missing)}")
        if self.unused:
            parts.append(f"{len(self.unused)} unused: {listed(self.unused)}")
        return "; ".join(parts) + "."


def listed(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    shown = ", ".join(names[:SHOWN_NAMES])
    rest = len(names) - SHOWN_NAMES
    return f"{shown} and {rest} more" if rest > 0 else shown


def load_model(
    path: str | Path, *, heads: Sequence[str] | None = None, num_labels: int | None = None
) -> BertModel:
    """The model of a Hugging Face folder: fp32, on the CPU, in evaluation mode.

    Args:
        path: a folder, or the name of a model on the Hugging Face hub ("org/name"; needs the
            package huggingface_hub).
        heads: which heads the model is to have (`HEADS` in model/heads.py); those stored where
            not given. A head that is not stored starts at random.
        num_labels: outputs of a head with labels; as stored where not given. A number other than
            the stored one gives a new head.

    `model.load_report` says what was matched, missing and unused; `model.id2label` names the
    outputs of a stored head with labels.

    Raises:
        CheckpointError: the folder is incomplete, altered, or holds another kind of model.
    """
    checkpoint = Checkpoint.read(find_checkpoint(path))
    heads = checkpoint.heads if heads is None else heads
    stored = checkpoint.task_head
    is_kept = stored in heads and num_labels in (None, checkpoint.num_outputs)
    tensors = checkpoint.usable_tensors(heads, keep_task_head=is_kept)
    num_labels = num_labels or (checkpoint.num_outputs if stored in heads else None)
    checkpoint.check_sizes()
    new_heads = build_heads(checkpoint.config, heads, num_labels)
    pooler = None if new_heads else checkpoint.has_pooler
    with skeleton():
        model = BertModel(checkpoint.config, new_heads, pooler=pooler)
    missing = fill(model, tensors, checkpoint.directory)
    model.load_report = report(model, missing, checkpoint.stored_names)
    if is_kept:
        model.id2label = checkpoint.labels
    if is_kept or not (heads or stored):
        model.task_settings = own_settings(checkpoint.settings)
    return model.eval()


@dataclass(frozen=True)
class Checkpoint:
    """A folder as it was read: its settings, and its tensors by today's names."""

    directory: Path
    settings: Mapping[str, Any]
    config: BertConfig
    family: Family
    tensors: Mapping[str, Tensor]
    stored_names: tuple[str, ...]

    @classmethod
    def read(cls, directory: Path) -> "Checkpoint":
        """Read and check a folder; nothing is built yet."""
        settings = read_config(directory)
        family = family_of(settings)
        config = build_config(directory, settings)
        stored = read_weights(directory)
        tensors = by_canonical_names(directory, stored, family)
        check_tied(directory, tensors, family)
        for copy, original in family.tied.items():
            if copy.endswith(".bias") and copy in tensors:
                tensors.setdefault(original, tensors[copy])
        check_vocabulary(directory, config.vocab_size)
        return cls(directory, settings, config, family, tensors, tuple(stored))

    def check_sizes(self) -> None:
        """Raise CheckpointError if config.json asks for other sizes than the tensors have.

        New heads take memory by these sizes, so they come first; `fill` compares all shapes.
        """
        config = self.config
        for name, shape in {
            "embeddings.word.weight": (config.vocab_size, config.embedding_size),
            "layers.0.feed_forward.up.weight": (config.intermediate_size, config.hidden_size),
        }.items():
            (theirs,) = their_names(name, config)
            if theirs in self.tensors:
                check_shape(self.tensors[theirs], theirs, list(shape), self.directory)

    @property
    def has_pooler(self) -> bool:
        """Whether the folder has a pooler's weights."""
        theirs = self.family.names.get("pooler.dense")
        return theirs is not None and f"{theirs[0]}.weight" in self.tensors

    @property
    def task_head(self) -> str | None:
        """The fine-tuned head that the folder holds, if it is one that we have."""
        head = task_head(self.settings)
        if head is None or f"{self.family.final_layer(head)}.weight" not in self.tensors:
            return None
        return head

    @property
    def num_outputs(self) -> int | None:
        """Outputs of the fine-tuned head."""
        head = self.task_head
        return (
            None if head is None else len(self.tensors[f"{self.family.final_layer(head)}.weight"])
        )

    @property
    def heads(self) -> tuple[str, ...]:
        """The heads that the folder holds, of those that we know."""
        layers = {name: self.family.names.get(f"heads.{name}.dense") for name in PRETRAINING_HEADS}
        found = [
            name
            for name, theirs in layers.items()
            if theirs
            and f"{theirs[0]}.weight" in self.tensors
            and (name not in PAIR_HEADS or name == self.pair_head)
        ]
        head = self.task_head
        return (*found, *([head] if head else []))

    @property
    def pair_head(self) -> str | None:
        """Return the pair task of the folder's head, if any: BERT's has one name for both tasks."""
        known = [name for name in PAIR_HEADS if name in self.family.heads]
        if len(known) < 2:
            return known[0] if known else None
        written = self.settings.get(TASK_SETTINGS)
        task = written.get(PAIR_TASK) if isinstance(written, Mapping) else None
        return task if task in PAIR_HEADS else "next_sentence"

    @property
    def labels(self) -> dict[int, str]:
        """Names of the outputs; LABEL_0, LABEL_1, ... where the folder names none."""
        if self.task_head not in LABEL_HEADS:
            return {}
        named = self.settings.get("id2label") or {}
        numbers = range(self.num_outputs or 0)
        labels = {int(number): str(name) for number, name in named.items()}
        labels = labels or {number: f"LABEL_{number}" for number in numbers}
        if sorted(map(int, named or numbers)) != list(numbers):
            raise CheckpointError(
                f"{self.directory / 'config.json'}: id2label names the labels "
                f"{listed(sorted(named, key=int))}; the weights have {len(numbers)} outputs, so "
                f"allowed is 0 to {len(numbers) - 1}, each once. Correct it there."
            )
        firsts: dict[str, int] = {}
        for number, name in labels.items():
            if (first := firsts.setdefault(name, number)) != number:
                raise CheckpointError(
                    f"{self.directory / 'config.json'}: id2label calls both {first} and {number} "
                    f"{name!r}; allowed is one name for each label. Correct it there."
                )
        for name, place in (self.settings.get("label2id") or {}).items():
            is_same = str(place).isdecimal() and labels.get(int(place)) == name
            if not is_same and name != f"LABEL_{place}":  # what is left where names came later
                warn_once(
                    f"{self.directory / 'config.json'}: label2id gives {name!r} the number "
                    f"{place!r}, id2label {firsts.get(name, 'none')}. id2label is used; correct "
                    "the wrong one."
                )
                break
        return {number: labels[number] for number in numbers}

    def usable_tensors(self, heads: Sequence[str], *, keep_task_head: bool) -> dict[str, Tensor]:
        """The tensors that a model may take; a head of another kind than its own is left out."""
        left_out = () if keep_task_head else TASK_HEADS
        if self.pair_head is not None and self.pair_head not in heads:
            left_out = (*left_out, self.pair_head)
        prefixes = tuple(f"{name}." for name in self.family.head_names(left_out))
        return {
            name: tensor for name, tensor in self.tensors.items() if not name.startswith(prefixes)
        }


TASK_SETTINGS = "bertsmith"
"""Our key in config.json; transformers keeps it."""

PAIR_TASK = "pairs"
"""Below it, what the head for pairs says where that is not next sentence."""


def family_of(settings: Mapping[str, Any]) -> Family:
    """The family that a config.json names; BERT where it is silent."""
    return family_named(settings.get("model_type") or BERT.name)


def task_head(settings: Mapping[str, Any]) -> str | None:
    """Which fine-tuned head a folder with this config.json has; None if none that we know."""
    architectures = settings.get("architectures") or ()
    family = family_of(settings)
    kind = problem_type(settings)
    for name in TASK_HEADS:
        if family.architectures[frozenset({name})] in architectures and (
            name not in PROBLEM_TYPES or kind == PROBLEM_TYPES[name]
        ):
            return None if name == "regress" and num_labels(settings) > 1 else name
    return None


def own_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return our task's own settings; none in a folder of transformers or before fine-tuning."""
    has_pretraining_head = family_of(settings).base not in (settings.get("architectures") or ())
    if task_head(settings) is None and has_pretraining_head:
        return {}
    return dict(settings.get(TASK_SETTINGS) or {})


def problem_type(settings: Mapping[str, Any]) -> str | None:
    """Return the problem type of a sequence classifier; None for other models.

    One output alone is a regression where config.json is silent, as transformers has it.
    """
    if family_of(settings).classifier not in (settings.get("architectures") or ()):
        return None
    silent = "regression" if num_labels(settings) == 1 else PROBLEM_TYPES["classify"]
    return settings.get("problem_type") or silent


def num_labels(settings: Mapping[str, Any]) -> int:
    """Return the number of outputs in config.json, by default 2."""
    return int(settings.get("num_labels") or len(settings.get("id2label") or (0, 1)))


def hidden_size(settings: Mapping[str, Any]) -> int:
    """The width of the layers that a config.json announces."""
    return int(settings[family_of(settings).keys.get("hidden_size") or "hidden_size"])


def check_classifier(directory: Path, wanted: str | None) -> None:
    """Raise CheckpointError if a folder's sequence classifier is of another kind than `wanted`.

    None wants any kind that bertsmith has a head for.
    """
    settings = read_config(directory)
    found, head = problem_type(settings), task_head(settings)
    if found is None or (head is not None and wanted in (None, head)):
        return
    allowed = list(PROBLEM_TYPES.values()) if wanted is None else [PROBLEM_TYPES[wanted]]
    outputs = f" with {num_labels(settings)} outputs" if head is None else ""
    raise CheckpointError(
        f"{directory / 'config.json'}: problem_type is {found!r}{outputs}; wanted is "
        f"{' or '.join(map(repr, allowed))}. Use another folder, or train a head from this one "
        "with 'bertsmith finetune classify --model'."
    )


def write_task_settings(directory: Path, settings: Mapping[str, Any]) -> None:
    """Write what a task wants to find again into the config.json of a finished folder."""
    config = read_config(directory)
    if config.get(TASK_SETTINGS) != settings or not has_sum(directory, "config.json"):
        with summed(directory, "config.json"):
            write_json(directory / "config.json", config | {TASK_SETTINGS: dict(settings)})


def find_checkpoint(path: str | Path) -> Path:
    """The folder that `path` names, fetched from the hub if it is no folder but "org/name".

    Where "org" is a folder here, the name is taken for a path with a slip in it.

    Raises:
        CheckpointError: there is no such folder, and the hub cannot be reached or has it not.
    """
    wanted = Path(path)
    try:
        if wanted.is_dir():
            return wanted
        if wanted.exists():
            raise CheckpointError(f"{path}: this is a file. Name the folder of the checkpoint.")
    except OSError as error:  # a text in the model's place is too long for a name
        raise CheckpointError(
            f"'{str(path)[:60]}…': {error.strerror}. Name the folder of a checkpoint."
        ) from None
    if wanted.parent.is_dir() or not re.fullmatch(r"[\w.-]+/[\w.-]+", str(path)):
        raise missing_folder(wanted)
    return fetch_from_hub(str(path))


def missing_folder(path: Path) -> CheckpointError:
    """The error for a folder that is not there, with those beside it that have a similar name."""
    parent, found = path.parent, ""
    if parent.is_dir() and os.access(parent, os.R_OK):
        folders = [entry.name for entry in parent.iterdir() if entry.is_dir()]
        near = ", ".join(difflib.get_close_matches(path.name, folders))
        if parent != Path():
            found = f" {parent}/ is a folder here and has no {path.name}."
        found += f" Near: {near}." if near else ""
    hub = ", or a model of the Hugging Face hub as org/name" if len(path.parts) == 1 else ""
    return CheckpointError(
        f"{path}: there is no such folder.{found} Name the folder of a checkpoint{hub}."
    )


def fetch_from_hub(name: str) -> Path:
    """Download a model of the Hugging Face hub, or find it in the hub's own cache."""
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError
    except ImportError as error:
        raise CheckpointError(
            f"{name}: there is no such folder. If it is a model on the Hugging Face hub, "
            "install the package huggingface_hub, or download the model into a folder."
        ) from error
    try:
        return Path(snapshot_download(name, allow_patterns=list(CHECKPOINT_FILES)))
    except (HfHubHTTPError, HFValidationError, OSError) as error:
        if isinstance(error, OSError) and error.errno in SYSTEM_ADVICE and error.filename:
            raise read_error(CheckpointError, error.filename, error) from error
        raise CheckpointError(
            f"{name}: there is no such folder, and the Hugging Face hub did not give a model of "
            "that name. Check the spelling and the network, or name a folder."
        ) from error


def read_config(directory: Path) -> dict[str, Any]:
    """config.json of a folder.

    Raises:
        CheckpointError: it is missing, not JSON, describes a model of no family of ours, or the
            run that writes the folder has not reached its end.
    """
    check_finished(directory)
    check_sums(directory)
    file = directory / "config.json"
    try:
        settings = json.loads(
            file.read_text(encoding="utf-8"), object_pairs_hook=object_of_numbers_once
        )
    except IsADirectoryError as error:
        raise CheckpointError(f"{file}: a folder, not a file. Copy it again.") from error
    except FileNotFoundError as error:
        raise CheckpointError(
            f"{directory}: there is no config.json. Name the folder of a checkpoint."
        ) from error
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{file}: not valid JSON ({error}). Copy it again.") from error
    if not isinstance(settings, dict):
        raise CheckpointError(f"{file}: holds no JSON object. Copy it again.")
    name = settings.get("model_type") or BERT.name
    if not isinstance(name, str) or name not in families():
        raise CheckpointError(
            f"{file}: model_type is {name!r}. bertsmith reads models of the families "
            f"{', '.join(families())}. Choose an encoder of one of them."
        )
    for key, (is_allowed, allowed) in ALLOWED.items():
        found = settings.get(key)
        if found is not None and not is_allowed(found):
            raise CheckpointError(
                f"{file}: {key} is {json.dumps(found)[:60]}; allowed is {allowed}. Copy it again."
            )
    return settings


def object_of_numbers_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, in which a number may not stand twice as a key, as in `id2label`."""
    found = dict(pairs)
    if len(found) < len(pairs) and all(key.isdecimal() for key in found):
        raise ValueError(f"one of the keys {', '.join(found)} stands there twice")
    return found


def is_list_of_names(value: object) -> bool:
    """Whether a JSON value is a list of texts."""
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def names_labels(value: object) -> bool:
    """Whether a JSON value is an object whose keys are whole numbers."""
    try:
        return isinstance(value, dict) and all(int(number) >= 0 for number in value)
    except ValueError:
        return False


ALLOWED: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "architectures": (is_list_of_names, "a list of names"),
    "id2label": (names_labels, "an object of names by the labels' numbers"),
    "num_labels": (lambda found: type(found) is int and found >= 0, "a whole number"),
    "label2id": (lambda found: isinstance(found, dict), "an object of numbers by labels"),
    TASK_SETTINGS: (lambda found: isinstance(found, dict), "an object"),
}
"""What config.json may say besides the sizes of the model, which the config itself checks."""


def build_config(directory: Path, settings: Mapping[str, Any]) -> BertConfig:
    """Our config from Hugging Face's, or a CheckpointError if we have no such model."""
    file = directory / "config.json"
    family = family_of(settings)
    for key, allowed in family.fixed.items():
        if settings.get(key, allowed) != allowed:
            raise CheckpointError(
                f"{file}: {key} is {settings[key]!r}. bertsmith reads models whose {key} is "
                f"{allowed!r}. Choose such an encoder."
            )
    given: dict[str, Any] = {}
    for field in fields(family.config):
        their_key = family.keys.get(field.name, field.name)
        if their_key is not None and settings.get(their_key) is not None:
            given[field.name] = settings[their_key]
    given["pruned_heads"] = read_pruned_heads(file, settings)
    try:
        return family.config(**{**family.absent, **given})
    except ConfigError as error:
        raise CheckpointError(f"{file}: {error}") from error


def read_pruned_heads(file: Path, settings: Mapping[str, Any]) -> dict[int, list[int]]:
    """`pruned_heads` of a config.json, whose keys JSON has made strings."""
    try:
        found = settings.get("pruned_heads") or {}
        return {int(layer): [int(head) for head in heads] for layer, heads in found.items()}
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise CheckpointError(
            f"{file}: pruned_heads is {json.dumps(found)[:60]}, and must name lists of heads by "
            "the number of their layer. Copy the file again."
        ) from error


def check_vocabulary(directory: Path, rows: int) -> None:
    """Raise CheckpointError if the tokenizer of a folder, if any, has more ids than the embedding.

    Rows beyond the vocabulary are harmless: many pad the embedding to a round number.
    """
    name, tokens = count_tokens(directory)
    if tokens > rows:
        raise CheckpointError(
            f"{directory}: {name} has {tokens:,} tokens, the embedding {rows:,}. Use the tokenizer "
            "saved with the checkpoint."
        )


def load_tokenizer(directory: Path, rows: int) -> Tokenizer:
    """The tokenizer of a folder whose embedding has so many rows.

    Raises:
        CheckpointError: it is damaged, or gives ids that the embedding has not: some kinds add
            special tokens that their files lack.
    """
    tokenizer = Tokenizer.load(directory)
    if tokenizer.vocab_size > rows:
        raise CheckpointError(
            f"{directory}: the tokenizer has {tokenizer.vocab_size:,} tokens, the embedding "
            f"{rows:,}. Use the tokenizer saved with the checkpoint."
        )
    return tokenizer


TOKEN_IDS: Mapping[str, Callable[[Any], Iterable[int]]] = {
    "tokenizer.json": lambda settings: [
        *ids_of(settings["model"]["vocab"]),
        *(token["id"] for token in settings.get("added_tokens") or ()),
    ],
    "tokenizer_config.json": lambda settings: map(int, settings.get("added_tokens_decoder") or ()),
    "added_tokens.json": lambda settings: settings.values(),
}
"""Where each file of a tokenizer keeps ids. Only the first has all of them."""


def ids_of(vocab: Mapping[str, int] | Sequence[object]) -> Iterable[int]:
    """The ids of a vocabulary; that of SentencePiece is a list."""
    return range(len(vocab)) if isinstance(vocab, list) else vocab.values()  # type: ignore[union-attr]


def count_tokens(directory: Path) -> tuple[str, int]:
    """The file that has the highest id of a folder's tokenizer, and how many tokens that makes."""
    if (directory / "tokenizer.json").is_file():
        return "tokenizer.json", count_ids(directory / "tokenizer.json")
    if not (directory / "vocab.txt").is_file():
        return "", 0
    with (directory / "vocab.txt").open("rb") as lines:
        counts = {"vocab.txt": sum(1 for _ in lines)}
    for name in ("tokenizer_config.json", "added_tokens.json"):
        if (directory / name).is_file():
            counts[name] = count_ids(directory / name)
    name = max(counts, key=counts.__getitem__)
    return name, counts[name]


def count_ids(file: Path) -> int:
    """Count the tokens that a tokenizer file numbers, by its highest id."""
    try:
        ids = TOKEN_IDS[file.name](json.loads(file.read_text(encoding="utf-8")))
        return max(ids, default=-1) + 1
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{file}: not a tokenizer. Copy the file again.") from error


def canonical(name: str, family: Family = BERT) -> str:
    """A stored name in today's spelling: old ones say gamma and beta, or leave out "bert.".

    >>> canonical("embeddings.LayerNorm.gamma")
    'bert.embeddings.LayerNorm.weight'
    """
    name = re.sub(r"\.gamma$", ".weight", name)
    name = re.sub(r"\.beta$", ".bias", name)
    return re.sub(rf"^(?=({'|'.join(family.modules)})\.)", f"{family.name}.", name)


def by_canonical_names(
    directory: Path, stored: Mapping[str, Tensor], family: Family
) -> dict[str, Tensor]:
    """Tensors by today's names.

    Raises:
        CheckpointError: two spellings of one name, with different values.
    """
    spellings: dict[str, str] = {}
    for name, tensor in stored.items():
        first = spellings.setdefault(canonical(name, family), name)
        if first != name and not torch.equal(stored[first], tensor):
            raise CheckpointError(
                f"{directory}: {first} and {name} are two names of one weight, and differ; allowed "
                "is one of them. Take the wrong one out, or save the model again."
            )
    return {name: stored[spelling] for name, spelling in spellings.items()}


def check_tied(directory: Path, tensors: Mapping[str, Tensor], family: Family) -> None:
    """Raise CheckpointError if a decoder was trained apart from the word embedding."""
    for copy, original in family.tied.items():
        if copy in tensors and original in tensors:
            if torch.equal(tensors[copy], tensors[original]):
                continue
            raise CheckpointError(
                f"{directory}: {copy} differs from {original}. bertsmith reads models that tie "
                "the two, as BERT does. Choose a checkpoint whose decoder is tied."
            )


def their_names(name: str, config: BertConfig | None = None) -> tuple[str, ...]:
    """Hugging Face's names of one of our parameters, in BERT or in a config's family.

    >>> their_names("layers.3.feed_forward.up.bias")
    ('bert.encoder.layer.3.intermediate.dense.bias',)
    """
    module, _, kind = name.rpartition(".")
    names = (BERT if config is None else family_named(config.model_type)).names
    layer = re.match(r"layers\.(\d+)\.", module)
    if layer is None:
        return tuple(f"{theirs}.{kind}" for theirs in names[module])
    number = layer[1] if config is None else config.stored_layer(int(layer[1]))
    pattern = re.sub(r"^layers\.\d+\.", "layers.{i}.", module)
    return tuple(f"{theirs.replace('{i}', number)}.{kind}" for theirs in names[pattern])


def fill(model: BertModel, tensors: Mapping[str, Tensor], directory: Path) -> list[str]:
    """Put tensors in their places; returns the names of those that are missing.

    A missing pooler or head starts at random.

    Raises:
        CheckpointError: the encoder or a layer of another part is not complete, or a shape does not
            fit the config.
    """
    state, missing, lost = {}, [], []
    found: set[str] = set()  # layers of poolers and heads
    absences: dict[str, list[str]] = {}
    firsts: dict[int, str] = {}
    for name, parameter in model.state_dict(keep_vars=True).items():
        theirs = their_names(name, model.config)
        absent = [their for their in theirs if their not in tensors]
        missing += absent
        layer = name.rpartition(".")[0]
        if not name.startswith(("pooler.", "heads.")):
            lost += absent
        elif absent:
            absences.setdefault(layer, []).extend(absent)
        else:
            found.add(layer)
        first = firsts.setdefault(id(parameter), name)
        if first == name and not absent:
            parts = [tensors[their] for their in theirs]
            state[name] = stack(parts, theirs[0], parameter.shape, directory)
        elif first in state and not absent:
            check_copies(theirs, their_names(first, model.config), tensors, directory)
    lost += [name for layer in absences.keys() & found for name in absences[layer]]
    if lost:
        raise CheckpointError(
            f"{directory}: {len(lost)} weights are missing: {listed(lost)}. Copy or download the "
            "whole checkpoint again."
        )
    model.load_state_dict(state, strict=False, assign=True)
    if model.pooler is not None and "pooler.dense.weight" not in state:
        model.pooler.to_empty(device="cpu").apply(model.initialize)
    return list(dict.fromkeys(missing))


def check_copies(
    names: Sequence[str], firsts: Sequence[str], tensors: Mapping[str, Tensor], directory: Path
) -> None:
    """Raise CheckpointError if weights that config.json calls shared are not the same."""
    for name, first in zip(names, firsts, strict=True):
        if name != first and not torch.equal(tensors[name], tensors[first]):
            raise CheckpointError(
                f"{directory}: {name} differs from {first}, and config.json says that layers share "
                "them ('shared'). Take the folder as bertsmith wrote it, or write 'shared': "
                '"none" there.'
            )


def stack(parts: Sequence[Tensor], name: str, shape: torch.Size, directory: Path) -> Tensor:
    """Tensors of the folder as one of ours, in fp32."""
    expected = [shape[0] // len(parts), *shape[1:]]
    for part in parts:
        check_shape(part, name, expected, directory)
    return torch.cat([part.float() for part in parts]) if len(parts) > 1 else parts[0].float()


def check_shape(tensor: Tensor, name: str, expected: list[int], directory: Path) -> None:
    """Raise CheckpointError unless a tensor is of floating point and has this shape."""
    if list(tensor.shape) != expected or not tensor.is_floating_point():
        raise CheckpointError(
            f"{directory}: {name} is {tensor.dtype} {list(tensor.shape)}, config.json asks for "
            f"floating point {expected}. Use config.json and weights that were saved together."
        )


def report(model: BertModel, missing: Sequence[str], stored: Sequence[str]) -> LoadReport:
    """Report which tensors of the folder were loaded, missing and unused."""
    family = family_named(model.config.model_type)
    wanted = {name for ours in model.state_dict() for name in their_names(ours, model.config)}
    matched = wanted - set(missing)
    copies = (copy for copy, original in family.tied.items() if original in matched)
    known = {*matched, *copies, *(f"{family.name}.embeddings.{name}" for name in BUFFERS)}
    unused = [name for name in stored if canonical(name, family) not in known]
    return LoadReport(tuple(sorted(matched)), tuple(sorted(missing)), tuple(sorted(unused)))


def save_model(
    model: BertModel,
    directory: str | Path,
    tokenizer: Tokenizer | None = None,
    *,
    id2label: Mapping[int, str] | None = None,
) -> None:
    """Write a folder that transformers opens: config.json, model.safetensors, the tokenizer.

    Weights are stored in fp32. Each file is replaced whole or not at all. `id2label` names
    the classes; `model.id2label` where not given. The model's `companions` have folders in it.

    Raises:
        CheckpointError: the tokenizer has more tokens than the model has embeddings.
        ConfigError: no class of transformers has the model's heads.
    """
    directory = Path(directory)
    if tokenizer is not None and tokenizer.vocab_size > model.config.vocab_size:
        raise CheckpointError(
            f"{directory}: the tokenizer has {tokenizer.vocab_size:,} tokens, the embedding "
            f"{model.config.vocab_size:,}. Save the tokenizer that the model was trained with."
        )
    settings = their_config(model, id2label or model.id2label)
    write_safetensors(directory / "model.safetensors", their_tensors(model))
    with summed(directory, "config.json"):
        write_json(directory / "config.json", settings)
    if tokenizer is not None:
        tokenizer.save(directory)
    for name, companion in model.companions.items():
        save_model(companion, directory / name, tokenizer)


def their_tensors(model: BertModel) -> dict[str, Tensor]:
    """The weights in fp32 by Hugging Face's names; a bare encoder's have no "bert." prefix."""
    tensors: dict[str, Tensor] = {}
    own = dict(model.named_parameters())
    others = tuple(f"{name}." for name in model.companions)
    for name, value in model.state_dict().items():
        if name.startswith(others):
            continue
        theirs = their_names(name, model.config)
        # What layers share is stored for each of them where transformers cannot share it.
        stored = value.float() if name in own else value.float().clone()
        tensors.update(zip(theirs, stored.chunk(len(theirs)), strict=True))
    if not model.heads:
        prefix = f"{model.config.model_type}."
        return {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}
    return tensors


def their_config(model: BertModel, id2label: Mapping[int, str]) -> dict[str, Any]:
    """config.json as transformers reads it; `pooling` is ours, and transformers keeps it."""
    family = family_named(model.config.model_type)
    settings: dict[str, Any] = {
        "architectures": [family.architecture(tuple(model.heads))],
        "model_type": family.name,
        "dtype": "float32",
        "torch_dtype": "float32",
        **family.written,
        "tie_word_embeddings": True,
    }
    for name, value in asdict(model.config).items():
        key = family.keys.get(name, name)
        if key is not None:
            settings[key] = value
    for name, head in model.heads.items():
        if name in TASK_HEADS:
            settings |= head_config(name, head, id2label, family)
    if not model.config.pruned_heads:
        del settings["pruned_heads"]
    own = dict(model.task_settings)
    if "sentence_order" in model.heads and "next_sentence" in family.heads:
        own[PAIR_TASK] = "sentence_order"
    if own:
        settings[TASK_SETTINGS] = own
    return settings


def head_config(
    name: str, head: nn.Module, id2label: Mapping[int, str], family: Family
) -> dict[str, Any]:
    """Return the fields of config.json for a fine-tuned head."""
    if not isinstance(head, ClassificationHead):
        return {}
    key = family.dropout_keys.get(name, "classifier_dropout")
    settings: dict[str, Any] = {} if key is None else {key: head.dropout_prob}
    if name in PROBLEM_TYPES:
        settings["problem_type"] = PROBLEM_TYPES[name]
    if name in ("choose", "answer"):  # transformers counts the choices of each batch
        return settings
    names = [id2label.get(number, f"LABEL_{number}") for number in range(head.num_labels)]
    return settings | {
        "id2label": {str(number): name for number, name in enumerate(names)},
        "label2id": {name: number for number, name in enumerate(names)},
    }
