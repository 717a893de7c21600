"""Targets are written as transformers writes them, and the source is projected once."""

import copy

import pytest
import torch
from refusals import refuses
from tiny_marian import EOS, SHAPE, build_theirs, draw_sequences, pad
from tiny_t5 import save_spelling

from bertsmith.errors import InputError
from bertsmith.lineage.beam_search import BeamSearch
from bertsmith.lineage.encoder_decoder import SOURCES_AT_ONCE, TargetReader, generate_targets
from bertsmith.lineage.generation import Sampling
from bertsmith.lineage.source_target import SourceTarget
from bertsmith.lineage.text_to_text_generation import TextToTextGenerator
from bertsmith.lineage.transformer_folder import load_transformer

START = SHAPE["decoder_start_token_id"]
SOURCES = draw_sequences((6, 18, 2, 31, 7), seed=5)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    theirs = build_theirs(seed=7, std=0.2)
    with torch.no_grad():
        theirs.final_logits_bias[0, EOS] = 2.0  # so that some targets end early
    folder = tmp_path_factory.mktemp("marian")
    theirs.save_pretrained(folder)
    return load_transformer(folder), theirs


def write_theirs(model, sources, num_tokens, **options):
    answers = model.generate(
        pad(sources, 0),
        attention_mask=(pad(sources, -1) >= 0).long(),
        do_sample=False,
        max_new_tokens=num_tokens,
        **options,
    )[:, 1:].tolist()
    ends = [answer.index(EOS) + 1 if EOS in answer else num_tokens for answer in answers]
    return [answer[:end] for answer, end in zip(answers, ends, strict=True)]


def test_the_likeliest_tokens_are_theirs(pair):
    ours, theirs = pair
    answers = generate_targets(ours, SOURCES, 23)
    assert answers == write_theirs(theirs, SOURCES, 23)
    assert [generate_targets(ours, [source], 23)[0] for source in SOURCES] == answers


@pytest.mark.parametrize("beams", [2, 4])
@pytest.mark.parametrize("length_penalty", [1.0, 0.0, 2.0])
def test_beams_are_theirs(pair, beams, length_penalty):
    ours, theirs = pair
    options = {"num_beams": beams, "length_penalty": length_penalty}
    answers = generate_targets(ours, SOURCES, 19, BeamSearch(beams, length_penalty))
    assert answers == [write_theirs(theirs, [each], 19, **options)[0] for each in SOURCES]


def test_some_targets_end_and_others_do_not(pair):
    """Otherwise the comparisons above would see one case only."""
    ours, _ = pair
    ended = {
        answer[-1] == EOS for answer in generate_targets(ours, SOURCES, 19, BeamSearch(4, 0.0))
    }
    assert ended == {True, False}


def test_each_step_with_the_cache_is_the_whole_target_without_it(pair):
    ours, _ = pair
    targets = draw_sequences((9, 9, 9, 9, 9), seed=8)
    batch = SourceTarget.of(SOURCES, targets, START)
    with torch.inference_mode():
        whole = ours.compute_logits(ours.decode(batch)).split(batch.target.lengths)
        reader = TargetReader(ours, SOURCES)
        read = [[START, *target[:-1]] for target in targets]
        for place in range(9):
            logits = reader.read([ids[place : place + 1] for ids in read])
            for index, expected in zip(batch.order, whole, strict=True):
                torch.testing.assert_close(logits[index], expected[place], atol=1e-5, rtol=1e-5)


def test_the_source_is_projected_once(pair, monkeypatch):
    ours, _ = pair
    attention = type(ours.decoder[0].source_attention)
    calls = []
    project = attention.project
    monkeypatch.setattr(
        attention, "project", lambda self, source: calls.append(self) or project(self, source)
    )
    generate_targets(ours, SOURCES, 15, BeamSearch(3))
    assert len(calls) == SHAPE["decoder_layers"]


def test_drawn_tokens_depend_on_the_seed_alone(pair):
    ours, _ = pair
    sampling = Sampling(temperature=1.5, seed=4)
    answers = generate_targets(ours, SOURCES, 12, sampling)
    assert generate_targets(ours, SOURCES[:2], 12, sampling) == answers[:2]
    assert generate_targets(ours, SOURCES, 12, Sampling(temperature=1.5, seed=5)) != answers


def test_samples_of_a_text_depend_on_its_number_alone(tmp_path):
    """Texts are sorted by length and divided into groups, which must not decide what is drawn."""
    generator = TextToTextGenerator.load(save_spelling(tmp_path / "model"), "cpu")
    sampling = Sampling(temperature=1.5, seed=4)
    alone = generator(["good"], 8, sampling)
    assert generator(iter(["good"]), 8, sampling) == alone
    with refuses(InputError, "a single text"):
        generator("good", 8, sampling)
    assert generator(["good", "a very dull story"], 8, sampling)[:1] == alone
    count = SOURCES_AT_ONCE + 20
    samples = generator(["good"] * count, 8, sampling)
    assert samples[:1] == alone
    assert len(set(samples)) == count


def test_a_target_is_no_longer_than_the_positions(pair):
    ours = copy.deepcopy(pair[0])
    with torch.no_grad():
        ours.logit_bias[0, EOS] = -100.0
    lengths = list(map(len, generate_targets(ours, SOURCES, 500)))
    assert lengths == [SHAPE["max_position_embeddings"]] * len(SOURCES)
    assert generate_targets(ours, [], 5) == [] and generate_targets(ours, [[5]], 0) == [[]]


def test_sources_that_cannot_be_read_are_refused(pair):
    ours, _ = pair
    with refuses(InputError, "number 1", "no tokens"):
        generate_targets(ours, [[5], []], 3)
    with refuses(InputError, "number 0", "62", "61"):
        generate_targets(ours, [[5] * 62], 3)
    with refuses(InputError, "number 0", "101"):
        generate_targets(ours, [[5, 101]], 3)
