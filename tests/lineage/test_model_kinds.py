"""Each command takes the kinds of folders that the table names, and refuses all others by it."""

import json
import pickle
from pathlib import Path

import pytest
import torch
from tiny_models import save_tiny, write_reviews
from tiny_tokenizers import tiny_wordpiece

from bertsmith.errors import CheckpointError
from bertsmith.errors.model_kinds import (
    ALL_KINDS,
    CLASSIFIER_KINDS,
    ENCODER,
    FINE_TUNED,
    MASKED_LANGUAGE_MODEL,
    SYSTEM_KINDS,
    ModelKindError,
)
from bertsmith.evaluation.minimal_pairs import load_pair_scorer
from bertsmith.inspection.look import look
from bertsmith.lineage.settings import ElmoSettings, GptSettings, RecurrentSettings, T5Settings
from bertsmith.lineage.system import SYSTEMS
from bertsmith.lineage.text_generation import TextGenerator
from bertsmith.lineage.transformer import Transformer, TransformerConfig
from bertsmith.lineage.transformer_folder import save_transformer
from bertsmith.model.config_file import model_kind
from bertsmith.model.loading import build
from bertsmith.model.model_folder import read_folder
from bertsmith.model.saving import save_model
from bertsmith.tasks.fill_mask import FillMask
from bertsmith.tasks.predictor import Predictor

pytestmark = pytest.mark.same_on_all_computers
SYSTEM_SETTINGS = {
    "gpt": GptSettings("tiny", max_length=32),
    "lstm": RecurrentSettings("tiny", max_length=32),
    "elmo": ElmoSettings("tiny", max_length=32),
    "t5": T5Settings("tiny", max_length=32),
}
KINDS = {
    "masked_lm": MASKED_LANGUAGE_MODEL,
    "encoder": ENCODER,
    "fine_tuned": FINE_TUNED,
    "gpt": SYSTEM_KINDS["gpt2"],
    "lstm": SYSTEM_KINDS["recurrent"],
    "elmo": SYSTEM_KINDS["elmo"],
    "t5": SYSTEM_KINDS["t5"],
    "transformer": SYSTEM_KINDS["marian"],
    "gpt_classifier": CLASSIFIER_KINDS["gpt2"],
    "lstm_classifier": CLASSIFIER_KINDS["recurrent"],
    "elmo_classifier": CLASSIFIER_KINDS["elmo"],
    "t5_classifier": CLASSIFIER_KINDS["t5"],
}
TRAINING = ("--steps", "1", "--device", "cpu", "--precision", "fp32", "--threads", "1")
LINES = {
    "fill": "fill MODEL [MASK]",
    "generate": "generate MODEL film --max-new-tokens 1",
    "translate": "translate MODEL film --max-new-tokens 1",
    "predict": "predict MODEL film",
    "embed": "embed MODEL FOLDER/texts.txt --out FOLDER/vectors.npy",
    "evaluate --minimal-pairs": "evaluate MODEL --minimal-pairs FOLDER/pairs.jsonl",
    "evaluate --data": "evaluate MODEL --data FOLDER/reviews.csv",
    "look": "look MODEL film --out FOLDER/look.html",
    "finetune classify": "finetune classify --model MODEL --train FOLDER/reviews.csv",
    "finetune regress": "finetune regress --model MODEL --train FOLDER/numbers.csv",
    "finetune translate": "finetune translate --model MODEL --train FOLDER/reviews.csv",
}
"""A line for each command, without options of training."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a model of each kind, and files for the commands."""
    root = tmp_path_factory.mktemp("kinds")
    save_tiny(root / "masked_lm", "masked_lm")
    save_tiny(root / "encoder")
    save_tiny(root / "fine_tuned", "classify", labels=("neg", "pos"))
    tokenizer = tiny_wordpiece()  # it can spell the labels, which a T5 writes
    torch.manual_seed(0)
    for name, settings in SYSTEM_SETTINGS.items():
        system = SYSTEMS[name]
        model = system.build(system.new_config(settings, tokenizer))
        system.set_tokenizer(model, tokenizer)
        (root / name).mkdir()
        system.save(model, root / name, tokenizer)
    for name in SYSTEM_SETTINGS:
        source = read_folder(root / name, to_classify=True)
        source.tokenizer.model_max_length = 32
        model = build(source, ["classify"], 2)
        model.id2label = {0: "neg", 1: "pos"}
        model.task_settings = {"task": "classify"}
        save_model(model, root / f"{name}_classifier", source.tokenizer)
    config = TransformerConfig(
        tokenizer.vocab_size, d_model=18, encoder_layers=1, decoder_layers=1,
        encoder_attention_heads=3, decoder_attention_heads=3, encoder_ffn_dim=19,
        decoder_ffn_dim=19, max_position_embeddings=128, pad_token_id=tokenizer.pad_id,
        eos_token_id=tokenizer.sep_id, decoder_start_token_id=tokenizer.cls_id,
    )  # fmt: skip
    (root / "transformer").mkdir()
    save_transformer(Transformer(config), root / "transformer", tokenizer)
    (root / "texts.txt").write_text("a film\n")
    pair = {"sentence_good": "good film", "sentence_bad": "film good"}
    (root / "pairs.jsonl").write_text(json.dumps(pair))
    write_reviews(root / "reviews.csv", 7)
    (root / "numbers.csv").write_text("text,label\n" + "a good film,1.5\nbad,0.5\n" * 3)
    return root


def words_of(command, kind, folder, out):
    line = LINES[command].replace("MODEL", str(folder / kind)).replace("FOLDER", str(folder))
    words = line.split(" ")
    if words[0] == "finetune":
        data = words[words.index("--train") + 1]
        columns = ()
        if command == "finetune translate":
            columns = ("--source-column", "text", "--target-column", "label")
        words += ["--eval", data, "--out", out, *TRAINING, *columns]
    elif command == "evaluate --data" and kind in ("t5", "transformer"):
        words += ["--source-column", "text", "--target-column", "label"]
    return words


@pytest.mark.parametrize("kind", KINDS)
def test_each_command_takes_the_kinds_of_the_table(kind, folder, bertsmith, refused, tmp_path):
    assert model_kind(json.loads((folder / kind / "config.json").read_text())) is KINDS[kind]
    for number, command in enumerate(LINES):
        words = words_of(command, kind, folder, tmp_path / str(number))
        if KINDS[kind].has(command):
            bertsmith(*words)
        else:
            assert kind in refused(*words), command
            assert not (tmp_path / str(number)).exists()


SAID = {
    ("fill", "gpt_classifier"): "predict",
    ("fill", "fine_tuned"): "predict",
    ("generate", "masked_lm"): "fill",
    ("generate", "elmo_classifier"): "predict",
    ("translate", "gpt_classifier"): "predict",
    ("predict", "gpt"): "generate",
    ("embed", "gpt"): "generate",
    ("embed", "gpt_classifier"): "predict",
    ("embed", "lstm_classifier"): "predict",
    ("evaluate --minimal-pairs", "lstm_classifier"): "predict",
    ("look", "elmo"): "evaluate --minimal-pairs",
    ("finetune regress", "lstm_classifier"): "finetune classify",
    ("finetune translate", "masked_lm"): "fill",
}


@pytest.mark.parametrize("command, kind", SAID)
def test_a_refusal_says_which_models_the_command_takes_and_which_commands_the_model_has(
    command, kind, folder, refused, tmp_path
):
    line = refused(*words_of(command, kind, folder, tmp_path / "out"))
    assert f"'bertsmith {command}' is for " in line and f"this is {KINDS[kind].noun}." in line
    assert SAID[command, kind] in line.partition("Its commands are ")[2]


def test_commands_of_no_kind_name_those_of_the_model(folder, refused):
    line = refused("params", folder / "t5")
    assert "'bertsmith params' does not read a T5." in line and "translate" in line


@pytest.mark.parametrize("language", ["", "zh"])
def test_the_page_has_the_commands_of_each_kind(language):
    page = Path(__file__).parents[2] / "docs" / language / "lineage.md"
    rows = [
        line.split(" | ")[1].removesuffix(" |")
        for line in page.read_text(encoding="utf-8").split("\n|---|---|\n")[1].splitlines()
        if line.startswith("| ")
    ]
    listed = [", ".join(f"`{command}`" for command in kind.commands) for kind in ALL_KINDS]
    assert rows[: len(listed)] == listed


def test_calls_in_python_say_the_same(folder):
    for call, command in (
        (lambda: Predictor.load(folder / "gpt_classifier", FillMask), "'bertsmith fill'"),
        (lambda: load_pair_scorer(folder / "encoder"), "'bertsmith evaluate --minimal-pairs'"),
        (lambda: look(folder / "lstm", "film"), "'bertsmith look'"),
        (lambda: TextGenerator.load(folder / "masked_lm"), "this is a masked language model."),
    ):
        with pytest.raises(ModelKindError) as caught:
            call()
        assert isinstance(caught.value, CheckpointError) and command in str(caught.value)
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
