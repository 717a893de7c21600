"""Beams find the sequences that those of transformers find."""

import pytest
import torch
from refusals import refuses
from tiny_gpt import SHAPE, build_theirs

from bertsmith.errors import SettingError
from bertsmith.lineage.beam_search import BeamSearch
from bertsmith.lineage.generation import generate
from bertsmith.lineage.gpt_folder import load_gpt

EOS = SHAPE["eos_token_id"]
PROMPTS = [[5, 17, 90, 4], [33], [8, 9, 10, 11, 12, 13, 14], [60, 61]]


@pytest.fixture(scope="module", params=[(2, -2.0), (4, 3.0)])
def pair(request, tmp_path_factory):
    seed, factor = request.param
    theirs = build_theirs(seed=seed, std=0.15)
    with torch.no_grad():
        theirs.transformer.wte.weight[EOS] *= factor  # so that some sequences end early
    folder = tmp_path_factory.mktemp("gpt")
    theirs.save_pretrained(folder)
    return load_gpt(folder), theirs


def search_theirs(model, prompt, num_tokens, settings):
    ids = torch.tensor([prompt])
    answer = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        num_beams=settings.beams,
        length_penalty=settings.length_penalty,
        do_sample=False,
        max_new_tokens=num_tokens,
        pad_token_id=EOS,
    )[0, len(prompt) :].tolist()
    return answer[: answer.index(EOS) + 1] if EOS in answer else answer


@pytest.mark.parametrize("beams", [1, 2, 5])
@pytest.mark.parametrize("length_penalty", [1.0, 0.0, -0.7, 2.0])
def test_the_best_sequence_is_theirs(pair, beams, length_penalty):
    ours, theirs = pair
    settings = BeamSearch(beams, length_penalty)
    answers = generate(ours, PROMPTS, 17, settings)
    if beams > 1:  # with one beam, transformers does not search
        assert answers == [search_theirs(theirs, prompt, 17, settings) for prompt in PROMPTS]
    assert [generate(ours, [prompt], 17, settings)[0] for prompt in PROMPTS] == answers


def test_a_search_has_sequences_that_end_and_others_that_do_not(pair):
    """Otherwise the comparison above would see one case only."""
    ours, _ = pair
    answers = generate(ours, PROMPTS, 17, BeamSearch(5, 0.0))
    assert {answer[-1] == EOS for answer in answers} == {True, False}


def test_more_beams_find_likelier_sequences(pair):
    ours, _ = pair
    totals = []
    for beams in (1, 20):
        answers = generate(ours, PROMPTS, 5, BeamSearch(beams, 0.0))
        totals.append(sum(map(log_prob, [ours] * 4, PROMPTS, answers)))
    assert totals[1] > totals[0] + 0.1


def log_prob(model, prompt, answer):
    with torch.no_grad():
        logits = model(torch.tensor([prompt + answer])).logits[0].log_softmax(-1)
    return sum(logits[len(prompt) - 1 + place, token].item() for place, token in enumerate(answer))


@pytest.mark.parametrize(("beams", "penalty"), [(0, 1.0), (-3, 1.0), (2000, 1.0), (2, 99.0)])
def test_settings_out_of_range_are_refused(beams, penalty):
    name = "--beams" if penalty == 1.0 else "--length-penalty"
    with refuses(SettingError, name, str(beams if penalty == 1.0 else penalty)):
        BeamSearch(beams, penalty)
