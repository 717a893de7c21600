"""A loaded model of the engine (the process that computes), and the kinds of results it gives.

A kind of result is "predict" (by the model's head), "vectors" or "token_vectors".
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.encoded_texts import EncodedTexts
from bertsmith.errors import CheckpointError, ConfigError, SettingError, option
from bertsmith.model.hub import find_checkpoint
from bertsmith.serving.folder_state import folder_state
from bertsmith.serving.mask_ids import MaskIds
from bertsmith.serving.messages import ModelInfo, ResultKind
from bertsmith.serving.token_vectors import TokenVectors
from bertsmith.system.json_text import shown_json
from bertsmith.system.small_files import SmallFiles
from bertsmith.system.threads import usable_threads
from bertsmith.tasks.auto import load
from bertsmith.tasks.fill_mask import FillMask
from bertsmith.tasks.inference import BYTES_PER_FORWARD_PASS, LoadedModel
from bertsmith.tasks.multi_label_classification import MultiLabel
from bertsmith.tasks.prediction import InferenceTask
from bertsmith.tasks.predictor import Predictor
from bertsmith.tasks.regression import Regress
from bertsmith.tasks.sentence_embedding import Embed
from bertsmith.tasks.sentence_folder import SETTINGS_FILE, Pooling, read_settings
from bertsmith.tasks.text_vectors import TextVectors

Definition = InferenceTask[Any, Any]
"""A task at inference: it makes examples of records, encodes them, and computes and decodes the
model's outputs for them."""
MIN_WARM_UP_LENGTH = 16
"""Number of tokens of the shortest text of the warm-up; each further one is twice as long."""
MAX_WARM_UP_LENGTH = 4096
"""Number of tokens of the longest text of the warm-up. A model without position vectors, such as a
T5, may read a million tokens, for which memory or time would not be enough."""


@dataclass(frozen=True)
class ServedModel:
    """A model, and for each kind of result its definition: the task that computes this result."""

    loaded: LoadedModel
    definitions: Mapping[ResultKind, Definition]
    info: ModelInfo

    @classmethod
    def load(
        cls,
        name: str,
        path: Path,
        *,
        device: str,
        precision: str,
        max_length: int | None,
        pooling: Pooling | None = None,
    ) -> "ServedModel":
        """Load a model folder for the task of its head, or with `pooling` for vectors only.

        Raises:
            CheckpointError: the folder is incomplete, not a BERT, or a model of another kind, or
                its prompts are no texts.
            ConfigError: this machine has no such device or precision, the model cannot read so many
                tokens, or they are too few for the windows in which it reads long texts.
        """
        folder = find_checkpoint(path)
        state = folder_state(folder)  # first, so that a later change of the files is noticed
        predictor: Predictor[Any]
        if pooling is None:
            predictor = load(folder, device=device, precision=precision, max_length=max_length)
        else:
            predictor = Predictor.load(
                folder,
                TextVectors,
                device=device,
                precision=precision,
                max_length=max_length,
                pooling=pooling,
            )
        loaded = predictor.loaded
        definition = predictor.definition
        definitions: dict[ResultKind, Definition] = {}
        # A pre-trained model gives vectors, and predicts masked tokens if it has the head for that;
        # a model with another head only predicts.
        if isinstance(definition, TextVectors | Embed | FillMask):
            vectors = TextVectors.restore(loaded, pooling=pooling)
            definitions |= {"vectors": vectors, "token_vectors": token_vectors_of(vectors)}
        if not isinstance(definition, TextVectors | Embed):
            # For masked tokens, the engine sends ids: the HTTP process turns them into words.
            is_for_masks = isinstance(definition, FillMask)
            definitions["predict"] = MaskIds(definition.tokenizer) if is_for_masks else definition
        info = model_info(name, path, loaded, definition, definitions)
        _check_windows(path, definition, info.max_length)
        return cls(loaded, definitions, replace(info, folder_state=state))

    def definition(self, kind: ResultKind, options: tuple[tuple[str, Any], ...]) -> Definition:
        """Return the definition of a kind of result, with the options of a request."""
        definition = self.definitions[kind]
        return replace(definition, **dict(options)) if options else definition  # type: ignore[type-var]

    def warm_up(self, max_tokens: int) -> tuple[int, float]:
        """Compute single texts of several lengths and one full batch of short ones.

        Otherwise the first requests would be slow: oneDNN compiles a kernel for each new shape, and
        threads start with the first batch.

        Returns:
            Number of tokens of the full batch, and the seconds that it took.
        """
        longest = min(self.info.max_length, MAX_WARM_UP_LENGTH)
        length = MIN_WARM_UP_LENGTH
        while length < longest:
            self._compute_random(1, length)
            length *= 2
        self._compute_random(1, longest)
        shortest = min(MIN_WARM_UP_LENGTH, longest)
        num_texts = max(1, max_tokens // shortest)
        started_at = time.perf_counter()
        self._compute_random(num_texts, shortest)
        return num_texts * shortest, time.perf_counter() - started_at

    def _compute_random(self, num_texts: int, length: int) -> None:
        # Predictions, where there are any, use the whole model: its encoder and its head.
        definition = self.definitions.get("predict") or next(iter(self.definitions.values()))
        rows = EncodedExamples.of_texts(self._random_texts(num_texts, length))
        definition.compute_outputs(self.loaded.model, rows)

    def _random_texts(self, num_texts: int, length: int) -> EncodedTexts:
        """Make texts of `length` random tokens; the second is [MASK], for models that fill it."""
        generator = np.random.default_rng(0)
        ids = generator.integers(
            0, self.loaded.tokenizer.num_pieces, (num_texts, length), dtype=np.int32
        )
        ids[:, 1] = self.loaded.tokenizer.mask_id
        # All tokens are of the first segment (type 0), and none was cut off.
        return EncodedTexts.of((row, np.zeros_like(row), 0) for row in ids)


def _check_windows(path: Path, definition: Definition, max_length: int) -> None:
    """Check that windows of `max_length` tokens are long enough for the stride of training.

    Otherwise the server would start, and refuse every request.

    Raises:
        ConfigError: neighbouring windows would share more than half of a window.
    """
    windowing = getattr(definition, "windowing", None)
    if windowing is None or windowing.long_texts == "cut":
        return
    try:
        windowing.overlap(max_length)
    except SettingError:
        raise ConfigError(
            f"{path}: the model was trained with windows that share {windowing.stride:g} tokens, "
            f"more than half of a window of {max_length} tokens. Raise {option('max_length')}."
        ) from None


def _read_prompts(files: SmallFiles) -> dict[str, str]:
    """Read the texts that a sentence encoder's folder names for putting before each text, by name.

    Raises:
        CheckpointError: they are not texts by name.
    """
    prompts = read_settings(files, SETTINGS_FILE, absent={}).get("prompts") or {}
    if isinstance(prompts, dict) and all(isinstance(text, str) for text in prompts.values()):
        return prompts
    raise CheckpointError(
        f"{files.path(SETTINGS_FILE)}: prompts is {shown_json(prompts)}; allowed is an object of "
        'texts by names, such as {"query": "query: "}. Correct it.'
    )


def tokens_of_all_threads() -> int:
    """Return the number of tokens that all threads compute at once, a forward pass for each.

    It is the number for fp32; in bf16, a pass may have twice as many tokens.
    """
    bytes_per_number = 4
    # A pass has so many tokens that one number for each of them takes `BYTES_PER_FORWARD_PASS`.
    tokens_per_pass = BYTES_PER_FORWARD_PASS // bytes_per_number
    return usable_threads() * tokens_per_pass


def token_vectors_of(vectors: TextVectors) -> TokenVectors:
    """Return the definition of token vectors of the same model."""
    return TokenVectors(vectors.max_length)


def model_info(
    name: str,
    path: Path,
    loaded: LoadedModel,
    definition: Definition,
    definitions: Mapping[ResultKind, Definition],
) -> ModelInfo:
    """Describe a model for the HTTP process.

    Args:
        name: the name under which the model is served.
        path: the folder or hub name, as the user gave it.
        definition: the task of the model's head.
        definitions: the task of each kind of result; for "predict", mostly `definition`.
    """
    vectors = definitions.get("vectors")
    config = loaded.model.config
    # The folder of a sentence encoder may set a smaller maximum than the model's.
    max_length = loaded.max_length
    if isinstance(vectors, TextVectors):
        max_length = min(max_length, vectors.max_length)
    return ModelInfo(
        name=name,
        path=str(path),
        folder=str(loaded.folder.path),
        task=definition.pipeline if "predict" in definitions else TextVectors.pipeline,
        kinds=tuple(definitions),
        is_multi_label=isinstance(definition, MultiLabel),
        is_regression=isinstance(definition, Regress),
        reads_pairs=getattr(definition, "pairs", None),
        labels=tuple(getattr(definition, "labels", ())),
        max_length=max_length,
        hidden_size=config.hidden_size,
        model_type=str(loaded.folder.settings.get("model_type", "bert")),
        precision=loaded.precision,
        device_name=str(loaded.device),
        num_threads=usable_threads() if loaded.device.type == "cpu" else torch.get_num_threads(),
        pooling=vectors.pooling if isinstance(vectors, TextVectors) else None,
        similarity=vectors.similarity if isinstance(vectors, TextVectors) else "cosine",
        prompts=_read_prompts(loaded.folder.files),
    )
