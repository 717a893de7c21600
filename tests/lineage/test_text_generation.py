"""`bertsmith generate`: a text goes in, the text and its continuation come out."""

import json

import pytest
import torch
from tiny_tokenizers import tiny_wordpiece

from bertsmith.lineage.beam_search import BeamSearch
from bertsmith.lineage.generation import Sampling, generate
from bertsmith.lineage.gpt import Gpt, GptConfig
from bertsmith.lineage.gpt_folder import save_gpt
from bertsmith.lineage.text_generation import TextGenerator


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    tokenizer = tiny_wordpiece()
    torch.manual_seed(1)
    config = GptConfig(
        tokenizer.vocab_size, n_embd=36, n_layer=2, n_head=3, n_positions=30,
        bos_token_id=tokenizer.cls_id, eos_token_id=tokenizer.sep_id,
        pad_token_id=tokenizer.pad_id, initializer_range=0.3,
    )  # fmt: skip
    path = tmp_path_factory.mktemp("gpt") / "model"
    save_gpt(Gpt(config), path, tokenizer)
    return path


def test_a_text_is_continued_after_the_start_token(folder):
    generator = TextGenerator.load(folder, "cpu")
    tokenizer, model = generator.tokenizer, generator.model
    prompts = [
        [tokenizer.cls_id, *tokenizer.encode_ids(text)] for text in ("the river runs", "", "sea")
    ]
    expected = generate(model, prompts, 6)
    results = generator(["the river runs", "", "sea"], 6)
    for prompt, ids, result in zip(prompts, expected, results, strict=True):
        assert result.continuation == tokenizer.decode(ids)
        assert result.text == tokenizer.decode(prompt + ids)
        assert result.is_ended == (ids[-1] == tokenizer.sep_id)
        assert result.num_tokens == len(ids) - result.is_ended
    assert results[0].text.startswith("the river runs")


def test_the_line_chooses_tokens_by_its_flags(folder, bertsmith):
    generator = TextGenerator.load(folder, "cpu")

    def run(*flags):
        line = ("generate", folder, "the river", "--device", "cpu", "--max-new-tokens", "7")
        return json.loads(bertsmith(*line, *flags, "--json"))["continuation"]

    def expect(choice):
        return generator(["the river"], 7, choice)[0].continuation

    assert run() == expect(None)
    assert run("--seed", "3") == expect(Sampling(seed=3))
    flags = ("--temperature", "0.7", "--top-k", "9", "--top-p", "0.8")
    assert run(*flags) == expect(Sampling(0.7, 9, 0.8))
    assert run("--beams", "3") == expect(BeamSearch(3))
    assert run("--beams", "3", "--length-penalty", "-2") == expect(BeamSearch(3, -2.0))
    text = bertsmith("generate", folder, "the river", "--device", "cpu", "--max-new-tokens", "7")
    assert text == generator(["the river"], 7)[0].text + "\n"


@pytest.mark.parametrize(
    ("flags", "parts"),
    [
        (("--beams", "0"), ("--beams", "0", "1 or more")),
        (("--beams", "2", "--top-k", "3"), ("--beams", "--top-k")),
        (("--temperature", "0"), ("--temperature",)),
        (("--max-new-tokens", "0"), ("--max-new-tokens",)),
        (("--max-new-tokens", "40"), ("40", "30")),
    ],
)
def test_what_cannot_be_is_refused(folder, refused, flags, parts):
    line = refused("generate", folder, "the river", *flags)
    assert all(part in line for part in parts)


def test_a_model_that_cannot_continue_a_text_names_its_command(refused, tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "bert"}', encoding="utf-8")
    assert "'bertsmith fill'" in refused("generate", tmp_path, "the river")
