"""`bertsmith corpus merge`: the encoded shards of a corpus → the corpus."""

import time
from collections.abc import Sequence

from bertsmith.commands.corpus_build import print_corpus
from bertsmith.commands.settings.corpus_merge import Settings
from bertsmith.data.corpus import TOKENIZER_DIR
from bertsmith.data.sharded_build import merge_corpus


def main(settings: Settings, line: Sequence[str]) -> None:
    started_at = time.perf_counter()
    corpus = settings.corpus
    manifest = merge_corpus(corpus)
    print_corpus(
        corpus, corpus / TOKENIZER_DIR, manifest, started_at=started_at, as_json=settings.json
    )
