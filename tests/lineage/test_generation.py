"""Generated tokens are transformers', and drawn ones follow their probabilities and the seed."""

import numpy as np
import pytest
import torch
import transformers
from refusals import refuses
from tiny_gpt import SHAPE, build_theirs

from bertsmith.errors import CheckpointError, ConfigError, InputError, SettingError
from bertsmith.lineage.beam_search import BeamSearch
from bertsmith.lineage.generation import Sampling, filter_logits, generate, sample_next_tokens
from bertsmith.lineage.gpt import Gpt, GptConfig
from bertsmith.lineage.gpt_folder import load_gpt
from bertsmith.model.cached_view import KeyValueCache

EOS = SHAPE["eos_token_id"]


@pytest.mark.parametrize("decoding", [None, Sampling(), BeamSearch()])
@pytest.mark.parametrize("damage", [torch.nan, torch.inf])
def test_a_model_whose_output_is_no_number_writes_nothing(decoding, damage):
    model = Gpt(GptConfig(20, n_embd=12, n_layer=1, n_head=2))
    with torch.no_grad():
        model.final_norm.bias[0] = damage
    with refuses(CheckpointError, "not a number"):
        generate(model, [[3, 4], [5]], 4, decoding)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    theirs = build_theirs(seed=3)
    folder = tmp_path_factory.mktemp("gpt")
    theirs.save_pretrained(folder)
    return load_gpt(folder), theirs


def draw_prompts():
    rng = np.random.default_rng(0)
    return [rng.integers(3, SHAPE["vocab_size"], length).tolist() for length in (5, 23, 1, 13, 13)]


def generate_theirs(model, prompts, num_tokens):
    """Greedy continuations by transformers, of prompts padded on the left with the end token."""
    longest = max(map(len, prompts))
    ids = torch.tensor([[EOS] * (longest - len(each)) + each for each in prompts])
    mask = torch.tensor([[0] * (longest - len(each)) + [1] * len(each) for each in prompts])
    answers = model.generate(
        ids, attention_mask=mask, do_sample=False, max_new_tokens=num_tokens, pad_token_id=EOS
    )[:, longest:].tolist()
    ends = [answer.index(EOS) + 1 if EOS in answer else len(answer) for answer in answers]
    return [answer[:end] for answer, end in zip(answers, ends, strict=True)]


def test_the_likeliest_tokens_are_theirs(pair):
    ours, theirs = pair
    prompts = draw_prompts()
    answers = generate(ours, prompts, 40)
    assert answers == generate_theirs(theirs, prompts, 40)
    assert [generate(ours, [prompt], 40)[0] for prompt in prompts] == answers


def test_an_end_token_ends_an_answer_but_not_a_prompt(pair):
    """Padding has the end token's id here, in transformers; a real one in a prompt counts."""
    ours, theirs = pair
    # The end token is made likelier than a frequent one, so that some answers end early.
    prompts = draw_prompts()
    frequent = np.bincount(np.concatenate(generate(ours, prompts, 40))).argmax()
    with torch.no_grad():
        for word in (ours.word.weight, theirs.transformer.wte.weight):
            word[EOS] = 1.001 * word[frequent]
    for prompt in prompts:
        prompt[len(prompt) // 2] = EOS
    answers = generate(ours, prompts, 40)
    lengths = {len(answer) for answer in answers}
    assert len(lengths) > 1 and all(EOS not in answer[:-1] for answer in answers)
    assert answers == generate_theirs(theirs, prompts, 40)
    shorter = [[token for token in prompt if token != EOS] or [5] for prompt in prompts]
    assert generate(ours, shorter, 40) != answers


@pytest.mark.parametrize("temperature", [0.5, 1.7])
@pytest.mark.parametrize("top_k", [None, 1, 7, 1000])
@pytest.mark.parametrize("top_p", [None, 0.05, 0.6, 1.0])
def test_limits_are_theirs(temperature, top_k, top_p):
    torch.manual_seed(0)
    logits = 3 * torch.randn(6, 50)
    steps = [transformers.TemperatureLogitsWarper(temperature)]
    if top_k is not None:
        steps.append(transformers.TopKLogitsWarper(top_k))
    if top_p is not None:
        steps.append(transformers.TopPLogitsWarper(top_p))
    expected = logits
    for step in steps:
        expected = step(None, expected)
    assert torch.equal(filter_logits(logits, Sampling(temperature, top_k, top_p)), expected)


def test_tokens_are_drawn_by_their_probabilities():
    logits = torch.tensor([[0.1, 0.0, 0.6, 0.3]]).log()
    stream = np.random.default_rng(0)
    counts = np.bincount(
        [sample_next_tokens(logits, [stream])[0] for _ in range(4000)], minlength=4
    )
    assert counts[1] == 0
    np.testing.assert_allclose(counts / 4000, [0.1, 0.0, 0.6, 0.3], atol=0.03)


def test_a_seed_decides_what_is_drawn_in_any_batch(pair):
    ours, _ = pair
    prompts = draw_prompts()
    sampling = Sampling(temperature=2.0, top_k=50, top_p=0.95, seed=7)
    answers = generate(ours, prompts, 20, sampling)
    assert generate(ours, prompts, 20, sampling) == answers
    assert generate(ours, prompts[:2], 20, sampling) == answers[:2]
    assert generate(ours, prompts, 20, Sampling(2.0, 50, 0.95, seed=8)) != answers
    assert generate(ours, prompts, 20, Sampling(top_k=1)) == generate(ours, prompts, 20)


def test_the_model_stays_in_its_mode(pair):
    ours, _ = pair
    ours.train()
    generate(ours, [[5]], 2)
    assert ours.training
    ours.eval()
    assert generate(ours, [], 3) == [] and generate(ours, [[5]], 0) == [[]]


def test_prompts_that_cannot_be_continued_are_refused(pair):
    ours, _ = pair
    with refuses(InputError, "number 1", "no tokens"):
        generate(ours, [[5], []], 3)
    with refuses(InputError, "number 0", "138", "140"):
        generate(ours, [[5] * 138], 3)
    with refuses(InputError, "number 0", "101"):
        generate(ours, [[5, 101]], 3)


@pytest.mark.parametrize(
    ("setting", "value"), [("temperature", 0.0), ("top_k", 0), ("top_p", 1.5), ("seed", -1)]
)
def test_settings_out_of_range_are_refused(setting, value):
    with refuses(SettingError, setting.replace("_", "-"), str(value)):
        Sampling(**{setting: value})


@pytest.mark.parametrize("changes, parts", [
    ({"n_layer": 3}, ["2 layers", "the model 3"]),
    ({"n_head": 4}, ["3 heads of 12 numbers", "the model 4 of 9"]),
])  # fmt: skip
def test_a_cache_of_another_model_is_refused(pair, changes, parts):
    shape = {"vocab_size": 101, "n_embd": 36, "n_layer": 2, "n_head": 3, "n_positions": 140}
    other = Gpt(GptConfig(**shape | changes)).eval()
    cache = KeyValueCache(2, 1, torch.device("cpu"))
    with torch.no_grad():
        pair[0].encode_new(torch.tensor([5, 7]), (2,), cache)
        with refuses(ConfigError, *parts, "another model"):
            other.encode_new(torch.tensor([5]), (1,), cache)
