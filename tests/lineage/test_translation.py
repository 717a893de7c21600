"""`finetune translate` learns from pairs, resumes bit for bit, and `translate` writes."""

import json
import random
import shutil
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from refusals import refuses
from tiny_runs import KilledError, StopAtStep

from bertsmith.data.columns import TranslationColumns
from bertsmith.data.translation_pairs import TranslationReader
from bertsmith.errors import ConfigError, InputError, SettingError
from bertsmith.lineage.text_to_text_generation import TextToTextGenerator
from bertsmith.lineage.transformer import Transformer, TransformerConfig
from bertsmith.lineage.transformer_folder import load_transformer, save_transformer
from bertsmith.lineage.translation import EncodedPairs, Translation, encode_pairs
from bertsmith.lineage.translation_run import finetune_translation
from bertsmith.lineage.translation_settings import TranslationOptimSettings, TranslationSettings
from bertsmith.model.weight_formats.safetensors_file import read_safetensors
from bertsmith.tokenization.auto import load_tokenizer
from bertsmith.tokenization.wordpiece import WordPieceTokenizer
from bertsmith.training.journal import read_journal
from bertsmith.training.settings import TrainingSettings

WORDS = ["ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen"]
TASKS = {"copy": list, "reverse": lambda words: words[::-1], "sort": sorted}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]).save(folder)
    return folder


def write_pairs(path, task, number, seed):
    draws = random.Random(seed)
    lines = ["source\ttarget"]
    for _ in range(number):
        words = draws.choices(WORDS, k=draws.randint(1, 8))
        lines.append(" ".join(words) + "\t" + " ".join(TASKS[task](words)))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def make_settings(folder, tokenizer, task="reverse", number=300, **changes):
    training = {"steps": 12, "batch_size": 16, "threads": 1, "precision": "fp32", "eval_rows": 30}
    training |= changes.pop("training", {})
    return TranslationSettings(
        train=write_pairs(folder / "train.tsv", task, number, 1),
        eval=write_pairs(folder / "eval.tsv", task, 100, 2),
        tokenizer=tokenizer,
        training=TrainingSettings(**training),
        **changes,
    )


@pytest.mark.parametrize(
    "task", [pytest.param("copy", marks=pytest.mark.slow), "reverse",
             pytest.param("sort", marks=pytest.mark.slow)],
)  # fmt: skip
def test_it_learns_to_rearrange_words(tmp_path, tokenizer, task):
    settings = make_settings(
        tmp_path, tokenizer, task, 4000, dropout=0.0,
        training={"steps": 300, "batch_size": 48},
        optim=TranslationOptimSettings(learning_rate=3e-3),
    )  # fmt: skip
    result = finetune_translation(settings, tmp_path / "out")
    assert result["evaluation"]["exact_match"] > 0.99
    writer = TextToTextGenerator.load(tmp_path / "out", "cpu")
    words = ["fox", "ant", "ant", "hen", "bee"]
    assert writer([" ".join(words), "eel"]) == [" ".join(TASKS[task](words)), "eel"]


def losses(out):
    names = ("step", "loss", "gradient_norm", "held_out_loss")
    entries = read_journal(out / "journal.jsonl")
    return [{name: entry[name] for name in names if name in entry} for entry in entries]


def test_a_resumed_run_is_the_uninterrupted_one_bit_for_bit(tmp_path, tokenizer):
    whole, out = tmp_path / "whole", tmp_path / "stopped"
    finetune_translation(make_settings(tmp_path, tokenizer, number=50), whole)
    settings = make_settings(tmp_path, tokenizer, number=50, training={"checkpoint_every": 4})
    with pytest.raises(KilledError):
        finetune_translation(settings, out, callbacks=[StopAtStep(6)])
    finetune_translation(settings, out, resume=True)
    assert losses(out) == losses(whole)
    ours, expected = (read_safetensors(path / "model.safetensors") for path in (out, whole))
    assert all(torch.equal(value, expected[name]) for name, value in ours.items())
    with refuses(ConfigError, "complete"):
        finetune_translation(settings, out, resume=True)


@pytest.mark.same_on_all_computers
def test_other_examples_are_refused_on_resuming(tmp_path, tokenizer):
    settings = make_settings(tmp_path, tokenizer, training={"checkpoint_every": 4})
    with pytest.raises(KilledError):
        finetune_translation(settings, tmp_path / "out", callbacks=[StopAtStep(6)])
    write_pairs(tmp_path / "train.tsv", "copy", 300, 1)
    with refuses(ConfigError, "--train"):
        finetune_translation(settings, tmp_path / "out", resume=True)


@pytest.mark.same_on_all_computers
def test_other_settings_of_a_continued_model_are_refused_on_resuming(tmp_path, tokenizer):
    first, out = tmp_path / "first", tmp_path / "out"
    config = TransformerConfig(
        13, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, eos_token_id=3, decoder_start_token_id=2,
    )  # fmt: skip
    save_transformer(Transformer(config), first, load_tokenizer(tokenizer))
    training = {"steps": 4, "checkpoint_every": 1}
    settings = make_settings(tmp_path, None, model=first, dropout=0.3, training=training)
    with pytest.raises(KilledError):
        finetune_translation(settings, out, callbacks=[StopAtStep(2)])
    with refuses(ConfigError, "dropout was 0.3, is now 0.0"):
        finetune_translation(replace(settings, dropout=0.0), out, resume=True)
    shutil.copytree(first, tmp_path / "other")
    with refuses(ConfigError, "--model was ", "first", "other"):
        finetune_translation(replace(settings, model=tmp_path / "other"), out, resume=True)
    finetune_translation(settings, out, resume=True)
    assert load_transformer(out).config.dropout == 0.3


def test_a_model_can_be_continued(tmp_path, tokenizer):
    first, second = tmp_path / "first", tmp_path / "second"
    finetune_translation(make_settings(tmp_path, tokenizer), first)
    settings = make_settings(tmp_path, None, model=first, training={"steps": 1})
    result = finetune_translation(settings, second)
    before, after = load_transformer(first), load_transformer(second)
    change = (before.word.weight - after.word.weight).abs().max()
    assert 0 < change < 2e-3 and result["steps"] == 1
    settings = make_settings(tmp_path, None, model=first, max_length=600)
    with refuses(SettingError, "--max-length", "600", "512"):
        finetune_translation(settings, tmp_path / "third")


def test_the_loss_is_smoothed_in_training_alone():
    torch.manual_seed(0)
    config = TransformerConfig(
        13, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, dropout=0.0,
    )  # fmt: skip
    model = Transformer(config)
    pairs = EncodedPairs("a.tsv", [[5, 6, 3], [7, 3]], [[6, 3], [8, 9, 3]], [1, 2])
    objective = Translation(pairs, pairs, 2, batch_size=2, label_smoothing=0.1)
    batch = objective.micro_batch(1, 0)
    log_probs = model.compute_logits(model.decode(batch)).log_softmax(-1)
    nll = -log_probs[torch.arange(5), batch.labels].sum()
    smoothed = 0.9 * nll - 0.1 * log_probs.mean(-1).sum()
    for is_training, expected in ((True, smoothed), (False, nll)):
        term = objective.losses(model.train(is_training), batch)["write"]
        torch.testing.assert_close(term.sum, expected, atol=1e-4, rtol=1e-5)
        assert term.count == 5 == objective.counts(batch)["write"]
    figures = objective.evaluate(model.eval())
    assert figures["held_out_write_loss"] == pytest.approx(nll.item() / 5, rel=1e-5)
    logits = model.compute_logits(model.decode(batch))
    theirs = F.cross_entropy(logits, batch.labels, reduction="sum", label_smoothing=0.1)
    torch.testing.assert_close(theirs, smoothed, atol=1e-4, rtol=1e-5)


def test_pairs_of_a_step_do_not_depend_on_its_division_and_epochs_have_all():
    pairs = EncodedPairs("a", [[n, 3] for n in range(4, 11)], [[n, 3] for n in range(4, 11)],
                         list(range(7)))  # fmt: skip
    whole = Translation(pairs, pairs, 2, batch_size=5)
    divided = Translation(pairs, pairs, 2, batch_size=5, micro_batch_size=2)
    seen = []
    for step in range(1, 8):
        numbers = [
            dict(zip(batch.step_indices, batch.source.input_ids[::2].tolist(), strict=True))
            for objective in (whole, divided)
            for batch in objective.micro_batches(step)
        ]
        assert {k: v for each in numbers[1:] for k, v in each.items()} == numbers[0]
        seen += [numbers[0][place] for place in range(5)]
    for epoch in range(5):
        assert sorted(seen[7 * epoch : 7 * epoch + 7]) == list(range(4, 11))
    assert seen[:7] != seen[7:14]


def test_rows_that_cannot_be_learned_are_refused_or_counted(tmp_path, tokenizer):
    reads = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])
    path = tmp_path / "pairs.csv"
    path.write_text("source,target\nant,bee\ncat,\nant bee cat,dog\n", encoding="utf-8")
    with refuses(InputError, "pairs.csv:3", "target", "--skip-incomplete"):
        encode_pairs(TranslationReader(path), reads, reads.sep_id, 9)
    columns = TranslationColumns(skip_incomplete=True)
    with refuses(InputError, "pairs.csv:4", "source", "4 tokens", "3", "--skip-long"):
        encode_pairs(TranslationReader(path, columns), reads, reads.sep_id, 3)
    pairs = encode_pairs(TranslationReader(path, columns), reads, reads.sep_id, 3, skip_long=True)
    assert (len(pairs), pairs.num_skipped) == (1, 2)
    with refuses(InputError, "pairs.csv", "longer than 1 tokens"):
        encode_pairs(TranslationReader(path, columns), reads, reads.sep_id, 1, skip_long=True)
    path.write_text("ant\nbee\n", encoding="utf-8")
    with refuses(InputError, "pairs.csv", "--source-column", worded=False):
        encode_pairs(TranslationReader(path), reads, reads.sep_id, 9)


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"model": "m"}, ("--tokenizer", "--model")),
        ({"tokenizer": None}, ("--tokenizer", "--model")),
        ({"label_smoothing": 1.0}, ("--label-smoothing", "1.0")),
        ({"max_length": 1}, ("--max-length", "1")),
        ({"tokenizer": None, "model": "m", "preset": "tiny"}, ("--preset", "--model")),
    ],
)
def test_settings_that_cannot_be_are_refused(changes, parts, tmp_path):
    settings = {"train": tmp_path, "eval": tmp_path, "tokenizer": tmp_path}
    with refuses(ConfigError, *parts):
        TranslationSettings(**settings | changes)


def test_the_lines_train_and_write(tmp_path, tokenizer, typed, bertsmith, refused):
    write_pairs(tmp_path / "train.tsv", "copy", 60, 1)
    with (tmp_path / "train.tsv").open("a", encoding="utf-8") as file:
        file.write("ant " * 40 + "\tant\n")  # longer than --max-length
    write_pairs(tmp_path / "eval.tsv", "copy", 20, 2)
    out = tmp_path / "out"
    line = (
        "finetune", "translate", "--train", tmp_path / "train.tsv", "--eval",
        tmp_path / "eval.tsv", "--tokenizer", tokenizer, "--out", out, "--batch-size", "8",
        "--precision", "fp32", "--threads", "1", "--steps", "2", "--schedule", "noam",
        "--max-length", "32", "--skip-long",
    )  # fmt: skip
    printed = typed(*line)
    assert "--train: 1 row was left out: a text was missing or longer than --max-length" in (
        printed.err
    )
    assert "8 held-out rows, 2 times" in printed.err and "--eval-rows 20 for more" in printed.err
    assert "whole target right" in printed.out and f"bertsmith translate {out}" in printed.out
    assert "holds an earlier run" in refused(*line)
    card = (out / "README.md").read_text(encoding="utf-8")
    assert "pipeline_tag: translation" in card and "bertsmith translate out" in card
    assert "2 layers, 128 wide" in card and "60 examples" in card
    (tmp_path / "texts.txt").write_text("ant bee\ncat\n", encoding="utf-8")
    flags = ("--device", "cpu", "--max-new-tokens", "5")
    texts = bertsmith("translate", out, "ant bee", "cat", *flags)
    assert texts == bertsmith("translate", out, "--file", tmp_path / "texts.txt", *flags)
    assert len(texts.splitlines()) == 2
    answer = json.loads(bertsmith("translate", out, "cat", "--beams", "2", "--json", *flags))
    assert answer["source"] == "cat"
    model = load_transformer(out)
    with torch.no_grad():
        model.logit_bias[0, model.end_id] = 1e4
    save_transformer(model, tmp_path / "silent", load_tokenizer(out))
    printed = typed("translate", tmp_path / "silent", "ant bee", "cat", "", *flags)
    assert printed.out == "\n\n\n" and "wrote nothing for 2 of 3 texts" in printed.err
    report = json.loads(
        bertsmith("evaluate", out, "--data", tmp_path / "eval.tsv", "--device", "cpu", "--json")
    )
    trained = json.loads((out / "run.json").read_text(encoding="utf-8"))["result"]["evaluation"]
    assert report["num_examples"] == 20 and report["exact_match"] == trained["exact_match"]
    line = ("evaluate", out, "--data", tmp_path / "eval.tsv", "--limit", "7", "--device", "cpu")
    assert "of the 7 targets" in bertsmith(*line)
    assert "--data" in refused("evaluate", out, "--minimal-pairs", tmp_path / "eval.tsv")
    assert "--page" in refused(*line, "--page", tmp_path / "page.html")
    long_row = tmp_path / "eval.tsv"
    with long_row.open("a", encoding="utf-8") as file:
        file.write("ant " * 600 + "\tant\n")
    assert "of the 7 targets" in bertsmith(*line), "rows after the limit are not read"
    refusal = refused("evaluate", out, "--data", long_row)
    assert "leave the row out" in refusal and "--skip-long" not in refusal
    assert "--max-length" not in refusal, "the model itself reads no more"
    assert "a larger --max-length" in refused(*line, "--max-length", "2")
    assert "--max-length" in refused(*line, "--max-length", "0")
    assert "--limit" in refused("evaluate", out, "--data", long_row, "--limit", "0")
    assert "--precision" in refused(*line, "--precision", "int8")
    assert "--beams" in refused("translate", out, "cat", "--length-penalty", "2")
    assert "--file FILE" in refused("translate", out)
    assert "not both" in refused("translate", out, "cat", "--file", "cats.txt")
    assert "--beams" in refused("translate", out, "cat", "--beams", "0")
    assert "commands are translate" in refused("predict", out, "cat")
    assert "commands are translate" in refused("generate", out, "cat")
