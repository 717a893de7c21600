"""`bertsmith corpus merge`: the encoded shards of a corpus → the corpus."""

import time
from collections.abc import Sequence

from bertsmith.commands.corpus_build import print_corpus
from bertsmith.commands.settings.corpus_merge import Settings
from bertsmith.data.corpus_build import UNMERGED_DIR
from bertsmith.data.sharded_build import merge_corpus
from bertsmith.vocabulary.origin import model_of_tokenizer


def main(settings: Settings, line: Sequence[str]) -> None:
    """Make a corpus of its shards, and print what it has.

    `line`, the words of the command line, which every command gets, is not needed here.
    """
    started_at = time.perf_counter()
    corpus = settings.corpus
    # Read before the folder of shards is removed, in which `corpus build --shard` notes the model.
    model = model_of_tokenizer(corpus / UNMERGED_DIR)
    manifest = merge_corpus(corpus)
    print_corpus(corpus, model, manifest, started_at=started_at, as_json=settings.json)
