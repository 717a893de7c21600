"""Hugging Face BERT folders to models and back.

Reads every BERT encoder that transformers writes, but for relative positions, unknown activations
and decoders that are not tied to the word embedding, and writes folders that transformers opens.
Inside, the model names and fuses its weights as it likes; `NAMES` is the only place that knows
both spellings. A tensor whose place the model has not is reported, never dropped in silence;
an encoder that is not there in full is an error.
"""

import difflib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from bertsmith.errors import CheckpointError, ConfigError
from bertsmith.files import write_json
from bertsmith.model.bert import BertConfig, BertModel
from bertsmith.model.heads import (
    LABEL_HEADS,
    NUMBER_HEADS,
    TASK_HEADS,
    ClassificationHead,
    build_heads,
)
from bertsmith.model.skeleton import skeleton
from bertsmith.model.weights import read_weights, write_safetensors

if TYPE_CHECKING:
    from bertsmith.text.wordpiece import Tokenizer

LAYER = "bert.encoder.layer.{i}"
NAMES = {
    "embeddings.word": ("bert.embeddings.word_embeddings",),
    "embeddings.position": ("bert.embeddings.position_embeddings",),
    "embeddings.token_type": ("bert.embeddings.token_type_embeddings",),
    "embeddings.norm": ("bert.embeddings.LayerNorm",),
    "layers.{i}.attention.qkv": (
        f"{LAYER}.attention.self.query",
        f"{LAYER}.attention.self.key",
        f"{LAYER}.attention.self.value",
    ),
    "layers.{i}.attention.output": (f"{LAYER}.attention.output.dense",),
    "layers.{i}.attention_norm": (f"{LAYER}.attention.output.LayerNorm",),
    "layers.{i}.feed_forward.up": (f"{LAYER}.intermediate.dense",),
    "layers.{i}.feed_forward.down": (f"{LAYER}.output.dense",),
    "layers.{i}.feed_forward_norm": (f"{LAYER}.output.LayerNorm",),
    "pooler.dense": ("bert.pooler.dense",),
    "heads.masked_lm.dense": ("cls.predictions.transform.dense",),
    "heads.masked_lm.norm": ("cls.predictions.transform.LayerNorm",),
    "heads.masked_lm": ("cls.predictions",),
    "heads.next_sentence.dense": ("cls.seq_relationship",),
    **{f"heads.{name}.dense": ("classifier",) for name in (*LABEL_HEADS, *NUMBER_HEADS)},
    "heads.answer.dense": ("qa_outputs",),
}
"""Our module to theirs; where several of theirs are one of ours, they are stacked in order."""

TIED = {
    "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}
"""Second names under which some folders store a tensor again."""

BUFFERS = ("bert.embeddings.position_ids", "bert.embeddings.token_type_ids")
"""Counters that older folders store; they hold nothing learnt."""

ARCHITECTURES = {
    frozenset[str](): "BertModel",
    frozenset({"masked_lm"}): "BertForMaskedLM",
    frozenset({"next_sentence"}): "BertForNextSentencePrediction",
    frozenset({"masked_lm", "next_sentence"}): "BertForPreTraining",
    frozenset({"classify"}): "BertForSequenceClassification",
    frozenset({"multi_label"}): "BertForSequenceClassification",
    frozenset({"regress"}): "BertForSequenceClassification",
    frozenset({"tag"}): "BertForTokenClassification",
    frozenset({"answer"}): "BertForQuestionAnswering",
    frozenset({"choose"}): "BertForMultipleChoice",
}
"""The class of transformers that has exactly these heads."""

ABSENT_SIZES = {
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
}
"""What transformers assumes where config.json is silent; `BertConfig` has the other defaults."""

PROBLEM_TYPES = {
    "classify": "single_label_classification",
    "multi_label": "multi_label_classification",
    "regress": "regression",
}
"""What tells the heads of BertForSequenceClassification apart."""

CHECKPOINT_FILES = ("*.json", "*.safetensors", "pytorch_model*.bin", "vocab.txt")
SHOWN_NAMES = 8


@dataclass(frozen=True)
class LoadReport:
    """Which weights of a folder found their place, by Hugging Face's names.

    `missing` are weights that the model has and the folder has not; they start at random.
    `unused` are weights that the folder has and the model has not, by their stored names.
    """

    matched: tuple[str, ...]
    missing: tuple[str, ...]
    unused: tuple[str, ...]

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
    """The model of a Hugging Face BERT folder: fp32, on the CPU, in evaluation mode.

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
    tensors = checkpoint.usable_tensors(keep_task_head=is_kept)
    num_labels = num_labels or (checkpoint.num_outputs if stored in heads else None)
    new_heads = build_heads(checkpoint.config, heads, num_labels)
    pooler = "bert.pooler.dense.weight" in tensors if not new_heads else None
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
    tensors: Mapping[str, Tensor]
    stored_names: tuple[str, ...]

    @classmethod
    def read(cls, directory: Path) -> "Checkpoint":
        """Read and check a folder; nothing is built yet."""
        settings = read_config(directory)
        config = build_config(directory, settings)
        stored = read_weights(directory)
        tensors = {canonical(name): tensor for name, tensor in stored.items()}
        check_tied(directory, tensors)
        if "cls.predictions.decoder.bias" in tensors:
            tensors.setdefault("cls.predictions.bias", tensors["cls.predictions.decoder.bias"])
        check_vocabulary(directory, config.vocab_size)
        return cls(directory, settings, config, tensors, tuple(stored))

    @property
    def task_head(self) -> str | None:
        """The fine-tuned head that the folder holds, if it is one that we have."""
        head = task_head(self.settings)
        return head if head is not None and f"{THEIR_HEAD[head]}.weight" in self.tensors else None

    @property
    def num_outputs(self) -> int | None:
        """Outputs of the fine-tuned head."""
        head = self.task_head
        return None if head is None else len(self.tensors[f"{THEIR_HEAD[head]}.weight"])

    @property
    def heads(self) -> tuple[str, ...]:
        """The heads that the folder holds, of those that we know."""
        found = {
            "masked_lm": "cls.predictions.transform.dense.weight" in self.tensors,
            "next_sentence": "cls.seq_relationship.weight" in self.tensors,
        }
        head = self.task_head
        return (*(name for name, is_there in found.items() if is_there), *([head] if head else []))

    @property
    def labels(self) -> dict[int, str]:
        """Names of the outputs; LABEL_0, LABEL_1, ... where the folder names none."""
        if self.task_head not in LABEL_HEADS:
            return {}
        named = self.settings.get("id2label") or {}
        labels = {int(number): str(name) for number, name in named.items()}
        numbers = range(self.num_outputs or 0)
        return {number: labels.get(number, f"LABEL_{number}") for number in numbers}

    def usable_tensors(self, *, keep_task_head: bool) -> dict[str, Tensor]:
        """The tensors that a model may take; a fine-tuned head of another kind is left out."""
        prefixes = () if keep_task_head else tuple(f"{name}." for name in THEIR_HEAD.values())
        return {
            name: tensor for name, tensor in self.tensors.items() if not name.startswith(prefixes)
        }


TASK_SETTINGS = "bertsmith"
"""Our key in config.json; transformers keeps it."""

THEIR_HEAD = {name: NAMES[f"heads.{name}.dense"][0] for name in TASK_HEADS}
"""Several of these have the same name, so config.json decides which one is meant."""


def task_head(settings: Mapping[str, Any]) -> str | None:
    """Which fine-tuned head a folder with this config.json has; None if none that we know."""
    architectures = settings.get("architectures") or ()
    kind = problem_type(settings)
    for name in TASK_HEADS:
        if ARCHITECTURES[frozenset({name})] in architectures and (
            name not in PROBLEM_TYPES or kind == PROBLEM_TYPES[name]
        ):
            return None if name == "regress" and num_labels(settings) > 1 else name
    return None


def own_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What our task wrote down for itself; nothing in a folder of transformers, or before
    fine-tuning."""
    has_pretraining_head = "BertModel" not in (settings.get("architectures") or ())
    if task_head(settings) is None and has_pretraining_head:
        return {}
    return dict(settings.get(TASK_SETTINGS) or {})


def problem_type(settings: Mapping[str, Any]) -> str | None:
    """What a sequence classifier was trained for, None if the folder holds another model.

    One output alone is a regression where config.json is silent, as transformers has it.
    """
    if "BertForSequenceClassification" not in (settings.get("architectures") or ()):
        return None
    silent = "regression" if num_labels(settings) == 1 else PROBLEM_TYPES["classify"]
    return settings.get("problem_type") or silent


def num_labels(settings: Mapping[str, Any]) -> int:
    """How many outputs config.json announces; 2 where it is silent."""
    return int(settings.get("num_labels") or len(settings.get("id2label") or (0, 1)))


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
    if config.get(TASK_SETTINGS) != settings:
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
        place = "this folder" if parent == Path() else f"{parent}/ is a folder here and"
        found = f" {place} has no {path.name}{'; near: ' if near else ''}{near}."
    return CheckpointError(
        f"{path}: there is no such folder.{found} Name the folder of a checkpoint."
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
        raise CheckpointError(
            f"{name}: there is no such folder, and the Hugging Face hub did not give a model of "
            "that name. Check the spelling and the network, or name a folder."
        ) from error


def read_config(directory: Path) -> dict[str, Any]:
    """config.json of a folder.

    Raises:
        CheckpointError: it is missing, not JSON, or describes a model that is not BERT.
    """
    file = directory / "config.json"
    try:
        settings = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise CheckpointError(
            f"{directory}: there is no config.json. Name the folder of a checkpoint."
        ) from error
    except ValueError as error:
        raise CheckpointError(f"{file}: not valid JSON ({error}). Copy it again.") from error
    if not isinstance(settings, dict):
        raise CheckpointError(f"{file}: holds no JSON object. Copy it again.")
    return settings


def build_config(directory: Path, settings: Mapping[str, Any]) -> BertConfig:
    """Our config from Hugging Face's, or a CheckpointError if our BERT cannot be that model."""
    file = directory / "config.json"
    for key, allowed in {
        "model_type": "bert",
        "position_embedding_type": "absolute",
        "is_decoder": False,
        "add_cross_attention": False,
    }.items():
        if settings.get(key, allowed) != allowed:
            raise CheckpointError(
                f"{file}: {key} is {settings[key]!r}. bertsmith reads models whose {key} is "
                f"{allowed!r}. Choose a BERT encoder."
            )
    known = {field.name for field in fields(BertConfig)}
    given = {key: value for key, value in settings.items() if key in known and value is not None}
    given["pruned_heads"] = read_pruned_heads(file, settings)
    try:
        return BertConfig(**{**ABSENT_SIZES, **given})
    except ConfigError as error:
        raise CheckpointError(f"{file}: {error}") from error


def read_pruned_heads(file: Path, settings: Mapping[str, Any]) -> dict[int, list[int]]:
    """`pruned_heads` of a config.json, whose keys JSON has made strings."""
    try:
        found = settings.get("pruned_heads") or {}
        return {int(layer): [int(head) for head in heads] for layer, heads in found.items()}
    except (ValueError, TypeError, AttributeError) as error:
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


TOKEN_IDS: Mapping[str, Callable[[Any], Iterable[int]]] = {
    "tokenizer.json": lambda settings: [
        *settings["model"]["vocab"].values(),
        *(token["id"] for token in settings.get("added_tokens") or ()),
    ],
    "tokenizer_config.json": lambda settings: map(int, settings.get("added_tokens_decoder") or ()),
    "added_tokens.json": lambda settings: settings.values(),
}
"""Where each file of a tokenizer keeps ids. Only the first has all of them."""


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
    """How many tokens the highest id in a file of a tokenizer makes."""
    try:
        ids = TOKEN_IDS[file.name](json.loads(file.read_text(encoding="utf-8")))
        return max(ids, default=-1) + 1
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{file}: not a tokenizer. Copy the file again.") from error


def canonical(name: str) -> str:
    """A stored name in today's spelling: old ones say gamma and beta, or leave out "bert.".

    >>> canonical("embeddings.LayerNorm.gamma")
    'bert.embeddings.LayerNorm.weight'
    """
    name = re.sub(r"\.gamma$", ".weight", name)
    name = re.sub(r"\.beta$", ".bias", name)
    return re.sub(r"^(?=(embeddings|encoder|pooler)\.)", "bert.", name)


def check_tied(directory: Path, tensors: Mapping[str, Tensor]) -> None:
    """Raise CheckpointError if a decoder was trained apart from the word embedding."""
    for copy, original in TIED.items():
        if copy in tensors and original in tensors:
            if torch.equal(tensors[copy], tensors[original]):
                continue
            raise CheckpointError(
                f"{directory}: {copy} differs from {original}. bertsmith reads models that tie "
                "the two, as BERT does. Choose a checkpoint whose decoder is tied."
            )


def their_names(name: str) -> tuple[str, ...]:
    """Hugging Face's names of one of our parameters.

    >>> their_names("layers.3.feed_forward.up.bias")
    ('bert.encoder.layer.3.intermediate.dense.bias',)
    """
    module, _, kind = name.rpartition(".")
    layer = re.match(r"layers\.(\d+)\.", module)
    number = layer[1] if layer else ""
    pattern = re.sub(r"^layers\.\d+\.", "layers.{i}.", module)
    return tuple(f"{theirs.replace('{i}', number)}.{kind}" for theirs in NAMES[pattern])


def fill(model: BertModel, tensors: Mapping[str, Tensor], directory: Path) -> list[str]:
    """Put tensors in their places; returns the names of those that are missing.

    A missing pooler or head starts at random.

    Raises:
        CheckpointError: the encoder is not complete, or a shape does not fit the config.
    """
    state, missing = {}, []
    for name, parameter in model.state_dict().items():
        theirs = their_names(name)
        absent = [their for their in theirs if their not in tensors]
        if not absent:
            parts = [tensors[their] for their in theirs]
            state[name] = stack(parts, theirs[0], parameter.shape, directory)
        missing += absent
    if lost := [name for name in missing if name.startswith(("bert.embeddings", "bert.encoder"))]:
        raise CheckpointError(
            f"{directory}: {len(lost)} weights of the encoder are missing: {listed(lost)}. Copy or "
            "download the whole checkpoint again."
        )
    model.load_state_dict(state, strict=False, assign=True)
    if model.pooler is not None and "bert.pooler.dense.weight" in missing:
        model.pooler.to_empty(device="cpu").apply(model.initialize)
    return missing


def stack(parts: Sequence[Tensor], name: str, shape: torch.Size, directory: Path) -> Tensor:
    """Tensors of the folder as one of ours, in fp32."""
    expected = [shape[0] // len(parts), *shape[1:]]
    for part in parts:
        if list(part.shape) != expected or not part.is_floating_point():
            raise CheckpointError(
                f"{directory}: {name} is {part.dtype} {list(part.shape)}, config.json asks for "
                f"floating point {expected}. Use config.json and weights that were saved together."
            )
    return torch.cat([part.float() for part in parts]) if len(parts) > 1 else parts[0].float()


def report(model: BertModel, missing: Sequence[str], stored: Sequence[str]) -> LoadReport:
    """What became of the folder's tensors."""
    wanted = {name for ours in model.state_dict() for name in their_names(ours)}
    matched = wanted - set(missing)
    known = {*matched, *BUFFERS, *(copy for copy in TIED if TIED[copy] in matched)}
    unused = [name for name in stored if canonical(name) not in known]
    return LoadReport(tuple(sorted(matched)), tuple(sorted(missing)), tuple(sorted(unused)))


def save_model(
    model: BertModel,
    directory: str | Path,
    tokenizer: "Tokenizer | None" = None,
    *,
    id2label: Mapping[int, str] | None = None,
) -> None:
    """Write a folder that transformers opens: config.json, model.safetensors, the tokenizer.

    Weights are stored in fp32. Each file is replaced whole or not at all. `id2label` names
    the classes; `model.id2label` where not given.

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
    write_json(directory / "config.json", settings)
    if tokenizer is not None:
        tokenizer.save(directory)


def their_tensors(model: BertModel) -> dict[str, Tensor]:
    """The weights in fp32 by Hugging Face's names; a bare encoder's have no "bert." prefix."""
    tensors: dict[str, Tensor] = {}
    for name, value in model.state_dict().items():
        theirs = their_names(name)
        tensors.update(zip(theirs, value.float().chunk(len(theirs)), strict=True))
    if not model.heads:
        return {name.removeprefix("bert."): tensor for name, tensor in tensors.items()}
    return tensors


def their_config(model: BertModel, id2label: Mapping[int, str]) -> dict[str, Any]:
    """config.json as transformers reads it; `pooling` is ours, and transformers keeps it."""
    architecture = ARCHITECTURES.get(frozenset(model.heads))
    if architecture is None:
        raise ConfigError(
            f"A model with the heads {', '.join(model.heads)} has no class in transformers. Save "
            "it with pre-training heads, or with the head of one task, or with none."
        )
    settings = {
        "architectures": [architecture],
        "model_type": "bert",
        "dtype": "float32",
        "torch_dtype": "float32",
        "position_embedding_type": "absolute",
        "tie_word_embeddings": True,
        **asdict(model.config),
    }
    for name, head in model.heads.items():
        if name in TASK_HEADS:
            settings |= head_config(name, head, id2label)
    if model.task_settings:
        settings[TASK_SETTINGS] = model.task_settings
    if not model.config.pruned_heads:
        del settings["pruned_heads"]
    return settings


def head_config(name: str, head: nn.Module, id2label: Mapping[int, str]) -> dict[str, Any]:
    """What config.json says of a fine-tuned head."""
    if not isinstance(head, ClassificationHead):
        return {}
    settings: dict[str, Any] = {"classifier_dropout": head.dropout_prob}
    if name in PROBLEM_TYPES:
        settings["problem_type"] = PROBLEM_TYPES[name]
    if name == "choose":  # transformers counts the choices of each batch
        return settings
    names = [id2label.get(number, f"LABEL_{number}") for number in range(head.num_labels)]
    return settings | {
        "id2label": {str(number): name for number, name in enumerate(names)},
        "label2id": {name: number for number, name in enumerate(names)},
    }
