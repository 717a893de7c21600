"""Small runs and corpora, and a callback that ends a run before its last step."""

from stop_at import StopAt

from bertsmith.data.corpus_build import build_corpus
from bertsmith.data.documents import TextsInMemory
from bertsmith.data.settings import CorpusSettings
from bertsmith.errors import BertsmithError
from bertsmith.pretraining.job import PretrainJob
from bertsmith.pretraining.model_settings import ModelSettings
from bertsmith.pretraining.settings import PretrainingSettings
from bertsmith.training.settings import TrainingSettings

FP32 = ("--device", "cpu", "--precision", "fp32")
LENGTHS = (
    "--max-length", "16", "--batch-size", "4", "--eval-rows", "4", "--precision", "fp32",
    "--threads", "1",
)  # fmt: skip
SIZE = (*LENGTHS, "--preset", "tiny", "--max-position-embeddings", "32")


def small_job(corpus_dir, family="bert", **training):
    """Make the job of pre-training a tiny model on rows of 16 tokens."""
    defaults = {"batch_size": 4, "eval_rows": 4, "threads": 1, "precision": "fp32"}
    return PretrainJob(
        corpus_dir,
        ModelSettings("tiny", family=family, max_position_embeddings=32),
        PretrainingSettings(16),
        TrainingSettings(**defaults | training),
    )


def small_corpus(folder, tokenizer, documents, held_out=0.0):
    """Build a corpus of a few documents; return its folder."""
    settings = CorpusSettings(held_out=held_out)
    build_corpus(TextsInMemory(lambda: documents), tokenizer, folder, settings)
    return folder


class KilledError(BertsmithError):
    """An error that ends a run at once, as if its process had been killed."""


class StopAtStep(StopAt):
    """Ends a run with `KilledError` when the entry of a step is written."""

    def write(self, entry, status):
        if entry["step"] == self.step:
            raise KilledError
