"""A config.json of a system that an editor or another program has changed: one clear error."""

import json

import pytest
from damage import ODD_VALUES
from tiny_tokenizers import tiny_wordpiece

from bertsmith.errors import CheckpointError
from bertsmith.lineage.elmo import Elmo, ElmoConfig
from bertsmith.lineage.elmo_folder import load_elmo, save_elmo
from bertsmith.lineage.gpt import Gpt, GptConfig
from bertsmith.lineage.gpt_folder import load_gpt, save_gpt
from bertsmith.lineage.recurrent import RecurrentConfig, RecurrentLanguageModel
from bertsmith.lineage.recurrent_folder import load_recurrent, save_recurrent
from bertsmith.lineage.t5 import T5, T5Config
from bertsmith.lineage.t5_folder import load_t5, save_t5
from bertsmith.lineage.transformer import Transformer, TransformerConfig
from bertsmith.lineage.transformer_folder import load_transformer, save_transformer
from bertsmith.system.checksums import SUMS_FILE

SIZE = tiny_wordpiece().vocab_size
FILTERS = ((1, 3), (2, 5))


def build_gpt():
    return Gpt(GptConfig(SIZE, n_embd=6, n_layer=1, n_head=2, n_positions=7, n_inner=5))


def build_lstm():
    return RecurrentLanguageModel(RecurrentConfig(SIZE, hidden_size=5, num_layers=1))


def build_elmo():
    return Elmo(ElmoConfig(SIZE, hidden_size=5, num_layers=1, cell_size=7, filters=FILTERS))


def build_t5():
    return T5(T5Config(SIZE, d_model=6, d_kv=4, d_ff=5, num_layers=1, num_decoder_layers=1))


def build_transformer():
    return Transformer(TransformerConfig(SIZE, d_model=8, encoder_layers=1, decoder_layers=1))


SYSTEMS = {
    "gpt": (build_gpt, save_gpt, load_gpt),
    "lstm": (build_lstm, save_recurrent, load_recurrent),
    "elmo": (build_elmo, save_elmo, load_elmo),
    "t5": (build_t5, save_t5, load_t5),
    "transformer": (build_transformer, save_transformer, load_transformer),
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_odd_values_are_refused_in_one_line_or_make_a_model(tmp_path, name):
    build, save, load = SYSTEMS[name]
    save(build(), tmp_path, tiny_wordpiece())
    (tmp_path / SUMS_FILE).unlink()  # so that no warning tells of the change
    path = tmp_path / "config.json"
    intact = json.loads(path.read_text())
    refused = set()
    for key in intact:
        for value in ODD_VALUES:
            path.write_text(json.dumps({**intact, key: value}))
            try:
                load(tmp_path)
            except CheckpointError as error:
                told = str(error)
                assert str(tmp_path) in told and "\n" not in told and len(told) < 500, told
                refused.add(key)
    assert {"model_type", "vocab_size"} <= refused
