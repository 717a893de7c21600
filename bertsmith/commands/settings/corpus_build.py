"""Options of `bertsmith corpus build`: each field is one, and its docstring is the help."""

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import tyro

from bertsmith.commands.flags import parse_settings
from bertsmith.data.settings import CorpusSettings, ShardNumber
from bertsmith.errors import ConfigError
from bertsmith.system.compute import refuse_beside_scheduler


@dataclass(frozen=True)
class Settings:
    """Turn texts into a corpus that a BERT can be pre-trained on.

    Documents are split into sentences (by rules for English and Chinese), and sentences into token
    ids. The corpus folder holds these ids, the bounds of sentences and documents, a copy of the
    tokenizer, and a manifest that lists what was read and what was skipped. A share of the
    documents (--held-out, by default 1 %) is kept out of training: models are evaluated on it.
    """

    files: tyro.conf.Positional[tuple[str, ...]]
    """Texts: .txt (empty lines between documents), .jsonl, .csv, .tsv or .parquet (a document in
    each row), each also as .gz, .xz or .zst. Folders and patterns such as 'texts/*.txt' are
    searched."""
    tokenizer: Path
    """Tokenizer: a folder that `bertsmith tokenizer train` wrote, a model folder or "org/name" on
    the Hugging Face hub, or a vocab.txt."""
    out: Path
    """Folder to write the corpus to."""
    corpus: CorpusSettings = field(default_factory=CorpusSettings)
    processes: int | None = None
    """Number of processes that split sentences and encode; by default one for each core that this
    process may use, at most 16."""
    scheduler: str | None = None
    """Dask scheduler whose workers encode, such as tcp://192.168.1.10:8786. They need bertsmith,
    and must see the texts and the folder under the same paths."""
    shard: str | None = None
    """Encode only a share of the texts, such as 3/16 for the third of 16; for a job array, whose
    jobs see the same folder. 'bertsmith corpus merge' then makes the corpus. Its files are the same
    for any number of shares."""
    overwrite: bool = False
    """Replace an earlier corpus in the folder, once the new one is complete."""
    json: bool = False
    """Print one JSON object instead of text."""

    def __post_init__(self) -> None:
        if not self.files:
            raise ConfigError("no FILES given. Name the texts to build the corpus from.")
        refuse_beside_scheduler(self.scheduler, shard=self.shard, processes=self.processes)
        if self.shard is not None:
            ShardNumber.parse(self.shard)


parse = partial(parse_settings, Settings)
