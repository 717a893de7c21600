"""A system beside BERT in one file: a bigram model, which sees the token before alone."""

from dataclasses import dataclass
from pathlib import Path

from torch import Tensor, nn

from bertsmith.data.batches import Batch
from bertsmith.data.corpus import Corpus
from bertsmith.lineage import system
from bertsmith.lineage.causal_lm import CausalLanguageModelling
from bertsmith.lineage.pretraining_run import SystemJob, pretrain_system
from bertsmith.lineage.settings import SystemSettings
from bertsmith.lineage.system_folder import FolderMap, load_system, save_system
from bertsmith.model.trainable import TrainableModel
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.training.journal import read_journal
from bertsmith.training.settings import TrainingSettings


@dataclass(frozen=True)
class BigramConfig:
    vocab_size: int
    num_layers: int = 1
    hidden_size: int = 24


class Bigram(TrainableModel):
    def __init__(self, config: BigramConfig) -> None:
        super().__init__()
        self.config = config
        self.word = nn.Embedding(config.vocab_size, config.hidden_size)
        self.next = nn.Linear(config.hidden_size, config.hidden_size)

    def encode(self, batch: Batch) -> Tensor:
        return self.next(self.word(batch.input_ids))


BIGRAM_FOLDER = FolderMap(
    noun="a bigram model",
    architecture="Bigram",
    config=BigramConfig,
    build=Bigram,
    fixed={"model_type": "bigram"},
    names_in_folder=lambda name: (name,),
    clean_weights=lambda directory, tensors: tensors,
)


def load(path: Path) -> Bigram:
    return load_system(BIGRAM_FOLDER, path)


def save(model: Bigram, directory: Path, tokenizer: Tokenizer) -> None:
    save_system(BIGRAM_FOLDER, model, directory, tokenizer)


def new_config(settings: SystemSettings, tokenizer: Tokenizer) -> BigramConfig:
    return BigramConfig(tokenizer.vocab_size)


def test_a_system_of_its_own_learns_and_comes_back(corpus_dir, tmp_path, monkeypatch):
    bigram = system.System(
        "bigram", SystemSettings, new_config, Bigram, load, save, CausalLanguageModelling
    )
    monkeypatch.setitem(system.SYSTEMS, "bigram", bigram)
    training = TrainingSettings(steps=20, batch_size=8, eval_rows=8, threads=1, precision="fp32")
    job = SystemJob("bigram", corpus_dir, SystemSettings("tiny", max_length=19), training)
    result = pretrain_system(job, tmp_path / "out")
    first = read_journal(tmp_path / "out" / "journal.jsonl")[0]["held_out_loss"]
    assert result["held_out_lm_loss"] < first - 0.3
    assert load(tmp_path / "out").config == BigramConfig(Corpus.open(corpus_dir).vocab_size)
