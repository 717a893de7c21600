"""The pre-training objective: steps are pure functions, rows are as the paper has them."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from refusals import refuses
from small_workers import small_model
from tiny_runs import small_corpus

from bertsmith.commands.flags import parse_with_recipe
from bertsmith.config import from_mapping, read_recipe
from bertsmith.data.corpus import Corpus
from bertsmith.errors import ConfigError, CorpusError
from bertsmith.pretraining import row_source
from bertsmith.pretraining.objective import Pretraining
from bertsmith.pretraining.row_source import GROUP_ROWS
from bertsmith.pretraining.settings import PretrainingSettings
from bertsmith.pretraining.token_counts import unigram_entropy

SHORT = PretrainingSettings(max_length=37)


def objective(corpus_dir, settings=SHORT, micro_batch_size=None, seed=5):
    train, held_out = Corpus.open(corpus_dir), Corpus.open(corpus_dir, "held_out")
    sizes = {"batch_size": 13, "micro_batch_size": micro_batch_size, "eval_rows": 29}
    return Pretraining(train, held_out, settings, seed=seed, **sizes)


def model_of(*heads):
    zero = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return small_model(*heads, max_position_embeddings=64, **zero)


def as_values(batch):
    tensors = [batch.input_ids, batch.token_type_ids, batch.position_ids, *batch.targets.values()]
    return [list(batch.lengths), *(tensor.tolist() for tensor in tensors)]


def rows(batch):
    """True token ids (masks undone) and type ids of each sequence."""
    ids = batch.input_ids.clone()
    ids[batch.targets["masked_positions"]] = batch.targets["masked_labels"]
    lengths = list(batch.lengths)
    return list(zip(ids.split(lengths), batch.token_type_ids.split(lengths), strict=True))


def test_a_run_can_begin_with_more_and_shorter_rows(corpus_dir):
    settings = PretrainingSettings(max_length=37, start_steps=3, start_length=11)
    growing = objective(corpus_dir, settings, micro_batch_size=5)
    for step in (1, 3):
        batches = growing.micro_batches(step)
        assert [batch.num_sequences for batch in batches] == [15, 15, 9]  # 3 times 5, 5 and 3
        assert max(length for batch in batches for length in batch.lengths) <= 11
    (after,) = objective(corpus_dir, settings).micro_batches(4)
    assert after.num_sequences == 13
    assert max(after.lengths) > 11


def test_evaluation_is_the_same_for_any_masking_and_near_chance_at_first(corpus_dir):
    model, other = model_of().eval(), replace(SHORT, masking="span", mask_share=0.9, keep_share=0.0)
    other = replace(other, masking_schedule_steps=3, final_masking_rate=0.3)
    with torch.inference_mode():
        figures = objective(corpus_dir).evaluate(model)
        assert objective(corpus_dir, other).evaluate(model) == figures
    mlm, nsp = figures["held_out_mlm_loss"], figures["held_out_nsp_loss"]
    assert mlm == pytest.approx(np.log(150), abs=0.3)
    assert figures["held_out_loss"] == pytest.approx(mlm + nsp)


@pytest.mark.parametrize("num_parts", [2, 5])
def test_parts_of_an_evaluation_give_the_same_figures(corpus_dir, monkeypatch, num_parts):
    monkeypatch.setattr(row_source, "EVALUATION_TOKENS", 5 * SHORT.max_length)
    model = model_of().eval()
    task = objective(corpus_dir)
    assert len(list(task.held_out_batches(model))) > 5
    with torch.inference_mode():
        results = [task.evaluate_part(model, part, num_parts) for part in range(num_parts)]
        assert task.combine(results) == task.evaluate(model)


def test_pairs_are_made_only_where_documents_allow_them(tmp_path, corpus_dir):
    tokenizer = Corpus.open(corpus_dir).tokenizer()
    built = small_corpus(tmp_path / "one", tokenizer, ["Baba ceba. Diba foba. Guba haba."])
    with refuses(CorpusError, f"{built}: ", " 1 document ", "--pairs none"):
        objective(built)
    single = objective(built, PretrainingSettings(max_length=16, pairs="none"))
    assert single.micro_batches(1)[0].num_sequences == 13
    assert single.evaluate(model_of("masked_lm")) == {}
    built = small_corpus(tmp_path / "short", tokenizer, ["Baba."])
    with refuses(CorpusError, f"{built}: ", "(1)", "--pairs sentence_order", "--pairs none"):
        objective(built, replace(SHORT, pairs="sentence_order"))
    mixed = small_corpus(tmp_path / "mixed", tokenizer, ["Baba ceba.", "Diba foba. Guba haba."])
    (batch,) = objective(mixed, replace(SHORT, pairs="sentence_order")).micro_batches(1)
    pairs = [i for i, (ids, _) in enumerate(rows(batch)) if (ids == 3).sum() == 2]
    assert 0 < len(pairs) < 13 and batch.targets["sentence_order_rows"].tolist() == pairs
    documents = [f"{word} ceba. Diba {word}. Guba haba." for word in ("Baba", "Baku", "Keli")]
    task = objective(small_corpus(tmp_path / "few", tokenizer, documents, held_out=1e-9))
    assert task.held_out.corpus.num_documents == 1
    figures = task.evaluate(model_of())
    assert "held_out_mlm_loss" in figures and "held_out_nsp_loss" not in figures


def test_sentence_order_is_learnt_of_two_sentences_only(tmp_path, corpus_dir):
    documents = ["Baba ceba.", "Diba foba. Guba haba. Keli moba.", "Nupa pare.", "Reba. Baba."]
    built = small_corpus(tmp_path / "built", Corpus.open(corpus_dir).tokenizer(), documents)
    task = objective(built, replace(SHORT, pairs="sentence_order"))
    assert 0 < task.facts()["single_sentence_share"] < 1
    labels = []
    for step in range(1, 41):
        (batch,) = task.micro_batches(step)
        chosen = batch.targets["sentence_order_rows"].tolist()
        labels += batch.targets["sentence_order_labels"].tolist()
        pairs = [i for i, (ids, _) in enumerate(rows(batch)) if (ids == 3).sum() == 2]
        assert chosen == pairs
    assert 80 < len(labels) < 40 * 13
    assert np.mean(labels) == pytest.approx(0.5, abs=0.15)


def test_unigram_entropy_is_that_of_the_counts(corpus_dir):
    train, held_out = Corpus.open(corpus_dir), Corpus.open(corpus_dir, "held_out")

    def words(corpus):
        bounds = corpus.sentence_starts[corpus.document_starts].tolist()
        return np.concatenate([corpus.token_ids(*ends) for ends in pairwise(bounds)])

    counts = np.bincount(words(train), minlength=train.vocab_size)
    counts[5:] += 1
    surprises = -np.log(counts[words(held_out)] / counts[5:].sum())
    assert unigram_entropy(train, held_out) == pytest.approx(surprises.mean())


@pytest.mark.parametrize(("change", "parts"), [
    ({"max_length": 4}, ["--max-length: found 4", "8 or more"]),
    ({"masking_rate": 0.0}, ["masking_rate: found 0.0", "more than 0 and less than 1"]),
    ({"mask_share": 0.9}, ["mask_share + ", "random_share + ", "keep_share: found 1.1"]),
    ({"rows": "across", "pairs": "next_sentence"}, ["rows: found 'across'", "--pairs none"]),
    ({"word_list": Path("w")}, ["word_list: found", "'piece'", "--masking word"]),
    ({"segmenter": "a:b", "word_list": Path("w"), "masking": "word"}, ["segmenter: ", "word_list"]),
    ({"pairs": "none", "short_seq_prob": 0.9}, ["short_seq_prob: found 0.9", "'none'"]),
    ({"objective": "masked_lm", "generator_size": 0.5}, ["_size: found 0.5", "'masked_lm'"]),
    ({"objective": "replaced_token", "pairs": "contrastive"}, ["pairs: found 'contrastive'"]),
    ({"masking_schedule_steps": 5}, ["masking_schedule_steps: found 5", "final_masking_rate, "]),
    ({"masking_schedule_steps": 5, "final_mask_share": 1.0}, ["mask_share + ", "share: found 1.2"]),
    ({"masking_schedule_steps": 5, "final_masking_rate": 0.2, "duplicates": 3},
     ["duplicates: found 3", "masking schedule"]),
])  # fmt: skip
def test_impossible_settings_are_refused(change, parts):
    with refuses(ConfigError, *parts):
        PretrainingSettings(**change)


KINDS: list[dict[str, Any]] = [
    {},
    {"masking": "word"},
    {"masking": "span", "pairs": "none"},
    {"masking": "ngram", "pairs": "sentence_order"},
    {"masking": "span", "pairs": "none", "rows": "across", "duplicates": 3},
    {"pairs": "sentence_order", "duplicates": 2, "start_steps": 4, "start_length": 12},
    {"masking_schedule_steps": 9, "final_masking_rate": 0.4, "final_mask_share": 0.9,
     "final_random_share": 0.0},
]  # fmt: skip


@pytest.mark.parametrize("change", KINDS, ids=str)
def test_every_kind_is_a_function_of_the_step_and_hides_words_of_its_rows(corpus_dir, change):
    settings = replace(SHORT, **change)
    task = objective(corpus_dir, settings)
    steps = list(range(1, 9))
    forwards, backwards = (
        {step: as_values(made.micro_batches(step)[0]) for step in order}
        for made, order in ((task, steps), (objective(corpus_dir, settings), steps[::-1]))
    )
    assert forwards == backwards
    assert as_values(objective(corpus_dir, settings, seed=6).micro_batches(1)[0]) != forwards[1]
    special = task.train.corpus.tokenizer().special_ids
    model = model_of(*task.settings.heads)
    for step in (1, 5, 9):
        (batch,) = task.micro_batches(step)
        assert not set(batch.targets["masked_labels"].tolist()) & set(special)
        groups = task.step_rows(step).segments()
        texts = [parts for segments in groups for parts in segments.of_rows()]
        labels_of_rows = [label for segments in groups for label in segments.labels.tolist()]
        for (ids, _), original in zip(rows(batch), batch.order, strict=True):
            text = [
                id_
                for part in texts[original]
                for id_ in task.train.corpus.token_ids(*part).tolist()
            ]
            assert [id_ for id_ in ids.tolist() if id_ not in special] == text
        if (pairs := task.settings.pair_task) != "none":
            labels = batch.targets[f"{pairs}_labels"].tolist()
            assert labels == [labels_of_rows[original] for original in batch.order]
        terms = task.losses(model, batch)
        assert {name: term.count for name, term in terms.items()} == task.counts(batch)
        if task.settings.masking == "piece":
            rate = task.settings.masking_rule(step).rate
            wanted = sum(round(length * rate) for length in batch.lengths)
            assert len(batch.targets["masked_labels"]) == pytest.approx(wanted, abs=1)


@pytest.mark.parametrize("change", KINDS, ids=str)
def test_the_division_of_a_step_changes_no_row(corpus_dir, change):
    """Rows of any micro-batch are those of the whole step, across the groups that are drawn."""
    settings = replace(SHORT, **change)
    whole, parts = objective(corpus_dir, settings), objective(corpus_dir, settings)
    for task, size in ((whole, 80), (parts, 7)):
        task.batch_size, task.micro_batch_size = 80, size
    (expected,) = whole.micro_batches(9)
    divided = parts.micro_batches(9)[::-1]  # in any order
    assert sum(batch.num_sequences for batch in divided) == expected.num_sequences
    assert rows_by_place(*divided) == rows_by_place(expected)


def rows_by_place(*batches):
    """Masked ids, type ids, and predicted positions with their labels, by the place in the step."""
    rows = {}
    for batch in batches:
        labels = torch.full_like(batch.input_ids, -1)
        labels[batch.targets["masked_positions"]] = batch.targets["masked_labels"]
        lengths = list(batch.lengths)
        tensors = (batch.input_ids, batch.token_type_ids, labels)
        columns = zip(*(tensor.split(lengths) for tensor in tensors), strict=True)
        for place, row in zip(batch.step_indices, columns, strict=True):
            rows[place] = [values.tolist() for values in row]
    return rows


def test_a_micro_batch_draws_its_own_groups_of_rows_alone(corpus_dir):
    task = objective(corpus_dir)
    task.batch_size, task.micro_batch_size = 4 * GROUP_ROWS, GROUP_ROWS
    rows = task.step_rows(3)
    assert rows.batch(range(GROUP_ROWS, 2 * GROUP_ROWS)).num_sequences == GROUP_ROWS
    assert list(rows.groups) == [1]
    assert rows.batch(range(2 * GROUP_ROWS - 1, 2 * GROUP_ROWS + 1)).num_sequences == 2
    assert list(rows.groups) == [1, 2]


def test_a_changed_word_list_is_another_run(corpus_dir, tmp_path):
    path, task, identities = tmp_path / "words.txt", objective(corpus_dir), []
    task.settings = replace(SHORT, masking="word", word_list=path)
    for words in ("北京", "上海"):
        path.write_text(words, encoding="utf-8")
        identities.append(task.identity()["word_list_sha256"])
    assert identities[0] != identities[1]


def test_static_rows_come_again_with_one_of_n_masks(corpus_dir):
    settings = replace(SHORT, pairs="none", duplicates=3)
    task = objective(corpus_dir, settings)
    steps = -(-3 * task.train.anchors.num_anchors // 13)
    seen: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for step in range(1, 2 * steps + 1):
        (batch,) = task.micro_batches(step)
        altered = batch.input_ids.split(list(batch.lengths))
        for (ids, _), masked in zip(rows(batch), altered, strict=True):
            seen.setdefault(tuple(ids.tolist()), []).append(tuple(masked.tolist()))
    # Anchors close together in a short document give the same window, which then is two rows.
    alone = [len(set(masks)) for masks in seen.values() if len(masks) == 2 * 3]
    assert len(alone) > 10 and max(alone) == 3
    assert np.mean(alone) > 2.8  # two of three draws are the same only by chance
    assert as_values(task.micro_batches(1)[0]) == as_values(task.micro_batches(steps + 1)[0])


def test_a_file_names_no_code_to_run(tmp_path):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('masking = "word"\nsegmenter = "os:system"\n')
    parts = f"{recipe}: segmenter: found 'os:system'", "--segmenter"
    with refuses(ConfigError, *parts):
        from_mapping(PretrainingSettings, read_recipe(recipe), str(recipe))
    with refuses(ConfigError, *parts):
        parse_with_recipe(
            PretrainingSettings, ["--recipe", str(recipe), "--segmenter", "a:b"], "p", "d"
        )
    recipe.write_text('masking = "word"\n')
    found = parse_with_recipe(
        PretrainingSettings, ["--recipe", str(recipe), "--segmenter", "a:b"], "p", "d"
    )
    assert found.segmenter == "a:b"
