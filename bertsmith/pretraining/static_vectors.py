"""Compute vectors of tokens from counts of a corpus, without training: the command `vectors`.

Pairs of tokens that stand near each other are counted (pretraining/counted_start.py). The vectors
are written as the folder of a model without layers (model/families/static_vectors.py), which
model2vec and sentence-transformers read, too.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bertsmith.config import to_jsonable
from bertsmith.data.corpus import Corpus
from bertsmith.errors import ConfigError, option
from bertsmith.model.bert import BertModel
from bertsmith.model.families.static_vectors import StaticConfig
from bertsmith.model.saving import save_model
from bertsmith.pretraining.counted_start import check_memory, count_vectors
from bertsmith.pretraining.vector_settings import VectorSettings
from bertsmith.system.nested_folder import write_static_modules
from bertsmith.system.paths import check_outside
from bertsmith.system.torch_modes import drawing_from
from bertsmith.training.run_folder import RunFolder


@dataclass(frozen=True)
class CountedVectors:
    """The result of counting: the folder, the numbers of vectors and tokens, and the time."""

    out: Path
    """Folder of the vectors."""
    num_vectors: int
    """Number of tokens of the vocabulary that occur in the corpus; others have the vector 0."""
    vocab_size: int
    size: int
    """Numbers of each vector."""
    num_tokens: int
    """Number of tokens in the corpus."""
    seconds: float
    """Time for counting and for building the model, without the time for writing its folder."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return dict(to_jsonable(self))

    def __str__(self) -> str:
        return (
            f"{self.out}: vectors of {self.size} numbers for {self.num_vectors:,} of "
            f"{self.vocab_size:,} tokens, counted in {self.num_tokens:,} tokens in "
            f"{self.seconds:.1f} s"
        )


def count_static_vectors(settings: VectorSettings) -> CountedVectors:
    """Count vectors of tokens in a corpus, and write their folder.

    Raises:
        CorpusError: there is no such corpus, or it is damaged.
        ConfigError: the folder to write is occupied or in the corpus, or there is too little
            memory to count in.
    """
    folder = RunFolder(settings.out)
    check_outside(settings.out, settings.corpus)
    check_folder(folder, settings)
    corpus = Corpus.open(settings.corpus, "train")
    check_memory(corpus, purpose="vectors", alternative="")
    began = time.perf_counter()
    tokenizer = corpus.tokenizer()
    with drawing_from(settings.seed):  # for the randomized SVD
        vectors, counts = count_vectors(corpus, settings.size)
    # [UNK] occurs in texts, but stands for any words, so its neighbours say nothing.
    special_ids = sorted(tokenizer.special_ids)
    vectors[special_ids] = 0
    counts[special_ids] = 0
    tokenizer.model_max_length = settings.max_length
    config = StaticConfig(
        vocab_size=corpus.vocab_size,
        hidden_size=settings.size,
        max_position_embeddings=settings.max_length,
        pad_token_id=tokenizer.pad_id,
    )
    model = BertModel(config)
    with torch.no_grad():
        model.embeddings.word.weight.copy_(vectors)
    result = CountedVectors(
        settings.out,
        num_vectors=int((counts > 0).sum()),
        vocab_size=corpus.vocab_size,
        size=settings.size,
        num_tokens=corpus.num_tokens,
        seconds=time.perf_counter() - began,
    )
    # Checked again under the lock: another process may have written the folder in the meantime.
    with folder.held(lambda: check_folder(folder, settings)):
        folder.begin()  # puts an earlier model aside
        write_static_modules(folder.path)
        save_model(model, folder.path, tokenizer)
        folder.finish()  # removes the earlier model
    return result


def check_folder(folder: RunFolder, settings: VectorSettings) -> None:
    """Refuse an occupied folder.

    Raises:
        ConfigError: the folder has a model, and may not be replaced, or has other files.
    """
    if folder.has_run and not settings.overwrite:
        raise ConfigError(
            f"{folder.path}: holds a model. Pass {option('overwrite', True)} to replace it, or "
            f"choose another {option('out')}."
        )
    folder.check(resume=False, overwrite=settings.overwrite)
