"""Random text is a corpus as any other."""

import numpy as np
import pytest

from bertsmith.data.shards import Corpus
from bertsmith.errors import ConfigError
from bertsmith.pretraining.objective import Pretraining
from bertsmith.pretraining.random_corpus import write_random_corpus
from bertsmith.pretraining.settings import PretrainingSettings


def test_rows_are_long_and_frequent_words_frequent(tmp_path):
    write_random_corpus(tmp_path, 211)
    train, held_out = Corpus.open(tmp_path), Corpus.open(tmp_path, "held_out")
    assert train.vocab_size == train.tokenizer().vocab_size == 211
    settings = PretrainingSettings(max_length=128, short_seq_prob=0.0)
    (batch,) = Pretraining(train, held_out, settings, batch_size=64).micro_batches(1)
    assert np.mean(batch.lengths) > 126
    assert batch.input_ids.max() < 211
    counts = np.bincount(train.token_ids(0, train.num_tokens), minlength=211)
    assert (counts[:5] == 0).all()
    assert counts[5] / counts[6] == pytest.approx(2, rel=0.05)
    assert counts[5] / counts[14] == pytest.approx(10, rel=0.1)
    with pytest.raises(ConfigError, match="--vocab-size 5: allowed is 6 or more"):
        write_random_corpus(tmp_path, 5)
