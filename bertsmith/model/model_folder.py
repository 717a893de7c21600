"""A model folder of Hugging Face's form, each of whose files is read once.

The *canonical* name of a tensor is its name in today's transformers: folders may hold older
spellings, or names with a prefix. Every encoder of our families that transformers writes can be
read, except encoders with relative positions, unknown activations, or a decoder that is not tied to
the word embedding.
"""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bertsmith.errors import CheckpointError, warn_once
from bertsmith.errors.model_kinds import ModelKindError
from bertsmith.model.config import BertConfig
from bertsmith.model.config_file import (
    CONFIG_FILE,
    PAIR_TASK,
    PROBLEM_TYPES,
    TASK_SETTINGS,
    build_config,
    family_of,
    model_kind,
    num_labels,
    problem_type,
    read_config,
    task_head,
)
from bertsmith.model.families import CLASSIFIER_MODULES
from bertsmith.model.family import Family
from bertsmith.model.head_names import (
    LABEL_HEADS,
    PAIR_HEADS,
    PRETRAINING_HEADS,
    TRAINING_COMMANDS,
)
from bertsmith.model.hub import find_checkpoint
from bertsmith.model.load_report import list_weights
from bertsmith.model.weight_names import (
    by_canonical_names,
    check_tied,
    without_common_prefix,
    without_wrappers,
)
from bertsmith.model.weights import read_weights
from bertsmith.system.checksums import compare_checksums
from bertsmith.system.counts import count_noun
from bertsmith.system.nested_folder import open_files
from bertsmith.system.run_state import check_finished, read_run
from bertsmith.system.small_files import SmallFiles
from bertsmith.tokenization.tokenizer import Tokenizer


def read_folder(path: str | Path, *, to_classify: bool = False) -> "ModelFolder":
    """Open a model folder, or a model of the Hugging Face hub ("org/name").

    Of a GPT, LSTM, ELMo or T5, only classifiers are read. With `to_classify`, language models of
    these kinds are read, too: a classifier can be fine-tuned from them.

    Raises:
        CheckpointError: there is no such folder, its training run has not finished, or its
            config.json is damaged or of a model that we do not have.
    """
    files = open_files(find_checkpoint(path))
    check_finished(files)
    compare_checksums(files)
    return ModelFolder(files, to_classify=to_classify)


class ModelFolder:
    """A folder's config, heads and labels; its tokenizer and weights are read when first needed.

    `files` gives the folder's small files, such as config.json, each of which it reads once;
    `to_classify` is that of `read_folder`.
    """

    def __init__(self, files: SmallFiles, *, to_classify: bool = False) -> None:
        self.files = files
        # `outer` is the folder that the user named, if the model is in a folder inside.
        self.path = files.outer or files.directory
        self.settings: Mapping[str, Any] = read_config(files, to_classify=to_classify)
        """The content of config.json."""
        self.stored_names: tuple[str, ...] = ()
        """Names of all stored tensors, canonical or not; empty until the weights are read."""
        self._tensors: dict[str, Tensor] | None = None

    @property
    def family(self) -> Family:
        """The family, looked up anew each time: its functions are lambdas, which pickle refuses."""
        return family_of(self.settings)

    @cached_property
    def config(self) -> BertConfig:
        """The model's config.

        Raises:
            CheckpointError: config.json describes a model that we do not have.
        """
        return build_config(self.files.path(CONFIG_FILE), self.settings)

    @cached_property
    def run(self) -> Mapping[str, Any]:
        """The content of run.json, the record of a training run; empty if there is none."""
        return read_run(self.files)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer.

        Raises:
            CheckpointError: the folder has no tokenizer, or a damaged one, or one with ids beyond
                the embedding: some kinds add special tokens that their files lack.
        """
        tokenizer = self.family.read_tokenizer(self.files, task_head(self.settings) is not None)
        if tokenizer.vocab_size > self.config.vocab_size:
            raise CheckpointError(
                f"{self.path}: the tokenizer has {tokenizer.vocab_size:,} tokens, the embedding "
                f"{self.config.vocab_size:,}. Use the tokenizer saved with the checkpoint."
            )
        return tokenizer

    @cached_property
    def shapes(self) -> Mapping[str, torch.Size]:
        """Shapes of the tensors by their canonical names; reads the weights.

        Raises:
            CheckpointError: as `take_tensors`.
        """
        self._tensors = self._read_tensors()
        return {name: tensor.shape for name, tensor in self._tensors.items()}

    def take_tensors(self) -> dict[str, Tensor]:
        """Return the tensors by their canonical names, in memory that only the caller holds.

        They are on the CPU, in the shapes and dtypes of the file.

        Raises:
            CheckpointError: the weights are missing, damaged, not finite, or not of one model.
        """
        tensors = self._tensors
        self._tensors = None
        return self._read_tensors() if tensors is None else tensors

    def _read_tensors(self) -> dict[str, Tensor]:
        """Read the weights, bring their names into canonical form, and check tied ones."""
        stored = without_wrappers(self.path, read_weights(self.path))
        stored = self.family.convert(self.files, stored)
        stored = without_common_prefix(self.path, stored, self.family)
        tensors = by_canonical_names(self.path, stored, self.family)
        tensors = {name: self.family.transpose(name, tensor) for name, tensor in tensors.items()}
        check_tied(self.path, tensors, self.family)
        # Some folders hold the decoder's bias only by the name of its copy.
        for copy, original in self.family.tied.items():
            if copy.endswith(".bias") and copy in tensors:
                tensors.setdefault(original, tensors[copy])
        self.stored_names = tuple(stored)
        return tensors

    @property
    def has_pooler(self) -> bool:
        stored_names = self.family.names.get("pooler.dense")
        return stored_names is not None and f"{stored_names[0]}.weight" in self.shapes

    @property
    def task_head(self) -> str | None:
        """The fine-tuned head that the folder holds, if bertsmith has that kind of head."""
        head = task_head(self.settings)
        if self.family.config.writes_labels:  # a T5, which has no weights of a head
            return head
        return head if head and f"{self.family.final_layer(head)}.weight" in self.shapes else None

    @property
    def num_outputs(self) -> int:
        """Outputs of the fine-tuned head; 0 without one.

        Raises:
            CheckpointError: the weight of the head's last layer is no matrix.
        """
        head = self.task_head
        if head is None:
            return 0
        if self.family.config.writes_labels:
            return num_labels(self.settings)
        name = f"{self.family.final_layer(head)}.weight"
        shape = self.shapes[name]
        if len(shape) != 2:
            raise CheckpointError(
                f"{self.path}: {name} has the shape {list(shape)}; it must be a matrix, [outputs, "
                "hidden]. Copy or download the whole checkpoint again."
            )
        return shape[0]

    @property
    def heads(self) -> tuple[str, ...]:
        """The heads that the folder holds, of those in `HEADS`."""
        task_heads = (self.task_head,) if self.task_head else ()
        # Layers of ModernBERT's task heads have the names of those of its masked-LM head.
        task_layers = self.family.head_names(task_heads)
        heads = []
        for name in PRETRAINING_HEADS:
            if name in PAIR_HEADS and name != self.pair_head:
                continue
            stored_names = self.family.names.get(f"heads.{name}.dense")
            if stored_names is None or stored_names[0] in task_layers:
                continue
            if f"{stored_names[0]}.weight" in self.shapes:
                heads.append(name)
        return (*heads, *task_heads)

    @property
    def pair_head(self) -> str | None:
        """The pair head that the folder may hold, or None.

        transformers has one name for BERT's heads of both pair tasks, next sentence prediction and
        sentence order. config.json says if it is that of sentence order.
        """
        pair_heads = [name for name in PAIR_HEADS if name in self.family.heads]
        if len(pair_heads) < 2:
            return pair_heads[0] if pair_heads else None
        task = (self.settings.get(TASK_SETTINGS) or {}).get(PAIR_TASK)
        return task if task in PAIR_HEADS else "next_sentence"

    @property
    def labels(self) -> dict[int, str]:
        """Names of the outputs; LABEL_0, LABEL_1, ... where the folder names none.

        Raises:
            CheckpointError: `id2label` names other outputs than the weights have, or two by one
                name.
        """
        if self.task_head not in LABEL_HEADS:
            return {}
        named = self.settings.get("id2label") or {}
        numbers = range(self.num_outputs)
        labels = {int(number): str(name) for number, name in named.items()}
        labels = labels or {number: f"LABEL_{number}" for number in numbers}
        if sorted(map(int, named or numbers)) != list(numbers):
            raise CheckpointError(
                f"{self.files.path(CONFIG_FILE)}: id2label names the labels "
                f"{list_weights(sorted(named, key=int))}; the weights have "
                f"{count_noun(len(numbers), 'output')}, so allowed is 0 to {len(numbers) - 1}, "
                "each once. Correct it there."
            )
        firsts: dict[str, int] = {}
        for number, name in labels.items():
            first = firsts.setdefault(name, number)
            if first != number:
                raise CheckpointError(
                    f"{self.files.path(CONFIG_FILE)}: id2label calls both {first} and {number} "
                    f"{name!r}; allowed is one name for each label. Correct it there."
                )
        for name, label_id in (self.settings.get("label2id") or {}).items():
            is_same = str(label_id).isdecimal() and labels.get(int(label_id)) == name
            # label2id may still have LABEL_0, … from before the labels in id2label got names.
            if not is_same and name != f"LABEL_{label_id}":
                warn_once(
                    f"{self.files.path(CONFIG_FILE)}: label2id gives {name!r} the number "
                    f"{label_id!r}, id2label {firsts.get(name, 'none')}. id2label is used; "
                    "correct the wrong one."
                )
                break
        return {number: labels[number] for number in numbers}

    @property
    def is_encoder(self) -> bool:
        """Whether the model is of BERT's kind, and not a GPT, LSTM, ELMo or T5 as a classifier."""
        return self.family.name not in CLASSIFIER_MODULES

    def check_encoder(self) -> None:
        """Refuse a model that is not `is_encoder`, for uses that need an encoder.

        Raises:
            ModelKindError: the model is of another kind; the message names the commands for it.
        """
        if not self.is_encoder:
            raise ModelKindError(self.files.path(CONFIG_FILE), model_kind(self.settings))

    def check_classifier(self, kind: str | None) -> None:
        """Refuse a sequence classifier whose head is not `kind`, which is a key of `PROBLEM_TYPES`.

        If `kind` is None, each of these heads is accepted. Models that are no sequence classifiers
        are not refused.

        Raises:
            CheckpointError: the model has another head; the message names its problem type.
        """
        stored_type = problem_type(self.settings)
        head = task_head(self.settings)
        if stored_type is None or (head is not None and kind in (None, head)):
            return
        # A regression with several outputs has no head of ours: what is allowed is then another
        # problem type.
        others = [name for name in PROBLEM_TYPES.values() if name != stored_type]
        wanted = None if kind is None else PROBLEM_TYPES[kind]
        allowed = others if wanted in (None, stored_type) else [wanted]
        outputs = f" with {num_labels(self.settings)} outputs" if head is None else ""
        raise CheckpointError(
            f"{self.files.path(CONFIG_FILE)}: problem_type is {stored_type!r}{outputs}; it must "
            f"be {' or '.join(map(repr, allowed))}. Use another folder, or train a head from this "
            f"one with {TRAINING_COMMANDS[kind or 'classify']}."
        )
