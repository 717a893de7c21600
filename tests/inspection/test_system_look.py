"""GPTs and Transformers: causal attention and attention to the source, as in transformers."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers
from browser import find_faults
from refusals import refuses
from tiny_runs import FP32
from tiny_tokenizers import tiny_wordpiece

from bertsmith.errors import CheckpointError, ConfigError, InputError
from bertsmith.errors.model_kinds import SYSTEM_KINDS
from bertsmith.inspection.look import look
from bertsmith.inspection.saliency import TOLERANCE, integrate_in_parts
from bertsmith.inspection.system_look import INPUT_BUILDERS, read_by_system
from bertsmith.lineage.gpt import Gpt, GptConfig
from bertsmith.lineage.gpt_folder import load_gpt, save_gpt
from bertsmith.lineage.t5 import T5, T5Config
from bertsmith.lineage.t5_folder import save_t5
from bertsmith.lineage.text_generation import TextGenerator
from bertsmith.lineage.text_to_text_generation import TextToTextGenerator
from bertsmith.lineage.transformer import Transformer, TransformerConfig
from bertsmith.lineage.transformer_folder import load_transformer, save_transformer

TEXT = "the river runs to the sea"


@pytest.fixture(scope="module")
def gpt(tmp_path_factory):
    tokenizer = tiny_wordpiece()
    config = GptConfig(
        tokenizer.vocab_size, n_embd=36, n_layer=3, n_head=2, n_positions=31,
        bos_token_id=tokenizer.cls_id, eos_token_id=tokenizer.sep_id,
        pad_token_id=tokenizer.pad_id, initializer_range=0.2,
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("gpt") / "model"
    folder.mkdir()
    torch.manual_seed(0)
    save_gpt(Gpt(config), folder, tokenizer)
    return folder


@pytest.fixture(scope="module")
def transformer(tmp_path_factory):
    tokenizer = tiny_wordpiece()
    config = TransformerConfig(
        vocab_size=tokenizer.vocab_size, d_model=36, encoder_layers=2, decoder_layers=3,
        encoder_attention_heads=3, decoder_attention_heads=2, encoder_ffn_dim=44,
        decoder_ffn_dim=52, max_position_embeddings=29, pad_token_id=tokenizer.pad_id,
        eos_token_id=tokenizer.sep_id, decoder_start_token_id=tokenizer.cls_id,
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("transformer") / "model"
    folder.mkdir()
    torch.manual_seed(0)
    model = Transformer(config)
    for parameter in model.parameters():
        parameter.data.mul_(1.2)
    save_transformer(model, folder, tokenizer)
    return folder


def assert_equal_attention(ours, theirs):
    assert len(ours) == len(theirs)
    for weights, expected in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(weights, expected[0].numpy(), rtol=0, atol=1e-6)
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6)


def test_the_attention_of_a_gpt_is_that_of_transformers(gpt):
    result = look(gpt, TEXT, device="cpu")
    tokenizer = tiny_wordpiece()
    ids = [tokenizer.cls_id, *tokenizer.encode_ids(TEXT)]
    theirs = transformers.GPT2LMHeadModel.from_pretrained(gpt, attn_implementation="eager").eval()
    with torch.no_grad():
        output = theirs(torch.tensor([ids]), output_attentions=True)
    assert_equal_attention(result.attentions, output.attentions)
    assert not np.triu(result.attentions[0], 1).any()
    np.testing.assert_allclose(result.logits, output.logits[0].numpy(), rtol=0, atol=2e-5)
    shares = output.logits[0, -1].softmax(-1)
    best = shares.topk(5)
    assert [each.value for each in result.decisions] == pytest.approx(
        best.values.tolist(), abs=1e-5
    )
    assert [each.label for each in result.decisions] == [
        tokenizer.decode([id_], skip_special_tokens=False) for id_ in best.indices.tolist()
    ]


def test_the_first_decision_of_a_gpt_is_the_token_that_it_writes(gpt):
    (written,) = TextGenerator.load(gpt, "cpu")([TEXT], 1)
    decision = look(gpt, TEXT, device="cpu").decisions[0]
    assert written.is_ended or decision.label == written.continuation.strip()


def test_a_gpt_whose_start_token_is_beyond_its_vocabulary_begins_with_cls(gpt, tmp_path):
    """As `generate` reads it: transformers gives every new GPT the start token of GPT-2."""
    folder = shutil.copytree(gpt, tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"bos_token_id": 50256}))
    (folder / "SHA256SUMS").unlink()
    result, usual = (look(path, TEXT, device="cpu") for path in (folder, gpt))
    assert result.tokens == usual.tokens
    np.testing.assert_array_equal(result.logits, usual.logits)


@pytest.mark.same_on_all_computers
@pytest.mark.parametrize("name", ["gpt2", "t5"])
def test_a_token_that_the_tokenizer_lacks_is_shown_by_its_id(name, tmp_path):
    """A T5 writes sentinels, whose ids are beyond the tokenizer's."""
    tokenizer = tiny_wordpiece()
    first = tokenizer.vocab_size
    torch.manual_seed(0)
    if name == "gpt2":
        model = Gpt(GptConfig(first + 2, n_embd=36, n_layer=1, n_head=2, n_positions=31))
    else:
        ids = {"eos_token_id": tokenizer.sep_id, "decoder_start_token_id": tokenizer.pad_id}
        model = T5(T5Config(first + 2, d_model=36, num_layers=1, num_decoder_layers=1, **ids))
    # One of two opposite rows always has the highest logit.
    row = 100 * torch.randn(36)
    model.word.weight.data[first:] = torch.stack([row, -row])
    (save_gpt if name == "gpt2" else save_t5)(model, tmp_path, tokenizer)
    result = look(tmp_path, "river", max_length=4, device="cpu")
    label = result.decisions[0].label
    assert label in (f"<{first}>", f"<{first + 1}>")
    assert result.data["lens"]["tokens"][-1][-1][0][0] == label
    if name == "t5":
        assert label in result.tokens


def test_attributions_of_systems_are_complete(gpt, transformer):
    for folder, pair in ((gpt, ()), (transformer, "the sea")):
        result = look(folder, TEXT, pair=pair, device="cpu")
        explained = [each for each in result.attributions if each is not None]
        assert explained
        for each in explained:
            assert each.error <= TOLERANCE
            assert each.values.shape == (len(result.tokens),)
        # The tokens that begin and end sequences are kept, so that they explain nothing.
        kept = [n for n, token in enumerate(result.tokens) if token in ("[CLS]", "[SEP]")]
        assert not explained[0].values[kept].any()


def test_attributions_of_a_gpt_equal_captum(gpt):
    attr = pytest.importorskip("captum.attr", reason="captum is not installed")
    tokenizer = tiny_wordpiece()
    ids = torch.tensor([[tokenizer.cls_id, *tokenizer.encode_ids(TEXT)]])
    theirs = transformers.GPT2LMHeadModel.from_pretrained(gpt, attn_implementation="eager").eval()
    result = look(gpt, TEXT, device="cpu")
    target = result.decisions[1].target
    ((place, id_),) = target.cells
    words = theirs.transformer.wte(ids).detach()
    baseline = torch.zeros_like(words)
    baseline[0, 0] = words[0, 0]
    expected = attr.IntegratedGradients(
        lambda vectors: theirs(inputs_embeds=vectors).logits[:, place, id_]
    ).attribute(words, baseline, n_steps=64, method="gausslegendre")
    expected = expected.sum(-1)[0].numpy()
    reader = read_by_system(gpt, "gpt2", TEXT, (), device="cpu").reader
    (ours,) = integrate_in_parts(
        reader.compute_target_logits, reader.embed_path_ends(), [target], 16
    )
    np.testing.assert_allclose(ours.values, expected, rtol=0, atol=1e-4)
    shown = result.attributions[1]
    assert abs(shown.values.sum() - expected.sum()) <= TOLERANCE * abs(shown.difference)


def test_a_gpt_without_a_head_is_a_cut_gpt(gpt):
    result = look(gpt, TEXT, without=["2.1"], device="cpu")
    theirs = transformers.GPT2LMHeadModel.from_pretrained(gpt).eval()
    theirs.transformer.h[1].attn.c_proj.weight.data[:18] = 0
    tokenizer = tiny_wordpiece()
    ids = torch.tensor([[tokenizer.cls_id, *tokenizer.encode_ids(TEXT)]])
    with torch.no_grad():
        shares = theirs(ids).logits[0, -1].softmax(-1)
    changed = [each["value"] for each in result.data["without"]["decisions"]]
    assert changed == pytest.approx(shares.topk(5).values.tolist(), rel=1e-3)
    assert changed != [each.value for each in result.decisions]


@pytest.mark.parametrize("target", [(), ("the sea runs",)])
def test_the_attention_of_a_transformer_is_that_of_transformers(target, transformer):
    result = look(transformer, TEXT, pair=target, device="cpu")
    tokenizer = tiny_wordpiece()
    source = [*tokenizer.encode_ids(TEXT), tokenizer.sep_id]
    source_tokens, target_tokens = (
        [token for token, *_ in sequence] for sequence in result.data["sequences"]
    )
    assert (source_tokens[-1], target_tokens[0]) == ("[SEP]", "[CLS]")
    assert (result.data["familyName"], result.data["hidesWords"]) == ("Transformer", True)
    if target:
        read = [tokenizer.cls_id, *tokenizer.encode_ids(target[0])]
        assert result.data["texts"] == (TEXT, *target)
    else:
        (written,) = TextToTextGenerator.load(transformer, "cpu")([TEXT], len(target_tokens))
        read = [tokenizer.cls_id, *map(tokenizer.token_to_id, target_tokens[1:])]
        assert tokenizer.decode(read).strip().startswith(written[:5].strip())
    theirs = transformers.MarianMTModel.from_pretrained(
        transformer, attn_implementation="eager"
    ).eval()
    with torch.no_grad():
        output = theirs(
            torch.tensor([source]), decoder_input_ids=torch.tensor([read]), output_attentions=True
        )
    assert_equal_attention(result.parts["the source to itself"], output.encoder_attentions)
    assert_equal_attention(result.parts["the target to itself"], output.decoder_attentions)
    assert_equal_attention(result.parts["the target to the source"], output.cross_attentions)
    np.testing.assert_allclose(result.logits, output.logits[0].numpy(), rtol=0, atol=1e-4)
    shares = output.logits[0].softmax(-1)
    wanted = [*read[1:], *([tokenizer.sep_id] if target else [])]  # without one, it does not end
    expected = [float(shares[place, id_]) for place, id_ in enumerate(wanted)]
    assert [each.value for each in result.decisions] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("is_tied", [True, False])
def test_the_attention_of_a_t5_is_that_of_transformers(is_tied, tmp_path):
    tokenizer = tiny_wordpiece()
    config = T5Config(
        tokenizer.vocab_size, d_model=36, d_kv=7, d_ff=44, num_layers=2, num_decoder_layers=3,
        num_heads=3, eos_token_id=tokenizer.sep_id, pad_token_id=tokenizer.pad_id,
        decoder_start_token_id=tokenizer.pad_id,
        feed_forward_proj="relu" if is_tied else "gated-gelu",
        tie_word_embeddings=is_tied, scale_decoder_outputs=is_tied,
    )  # fmt: skip
    torch.manual_seed(0)
    save_t5(T5(config), tmp_path, tokenizer)
    result = look(tmp_path, TEXT, pair="the sea runs", device="cpu")
    theirs = transformers.T5ForConditionalGeneration.from_pretrained(
        tmp_path, attn_implementation="eager"
    ).eval()
    source = [*tokenizer.encode_ids(TEXT), tokenizer.sep_id]
    read = [tokenizer.pad_id, *tokenizer.encode_ids("the sea runs")]
    with torch.no_grad():
        output = theirs(
            torch.tensor([source]), decoder_input_ids=torch.tensor([read]), output_attentions=True
        )
    assert_equal_attention(result.parts["the source to itself"], output.encoder_attentions)
    assert_equal_attention(result.parts["the target to itself"], output.decoder_attentions)
    assert_equal_attention(result.parts["the target to the source"], output.cross_attentions)
    np.testing.assert_allclose(result.logits, output.logits[0].numpy(), rtol=0, atol=1e-4)
    first = result.attributions[0]
    assert abs(first.values.sum() - first.difference) <= 0.05 * np.abs(first.values).sum()


@pytest.fixture(scope="module")
def gpt_run(gpt, tmp_path_factory):
    """A GPT's folder with two checkpoints of other weights."""
    folder = tmp_path_factory.mktemp("run") / "run"
    shutil.copytree(gpt, folder)
    config, tokenizer = load_gpt(gpt).config, tiny_wordpiece()
    for step in (3, 11):
        torch.manual_seed(step)
        (folder / "checkpoints" / f"step-{step:08d}").mkdir(parents=True)
        save_gpt(Gpt(config), folder / "checkpoints" / f"step-{step:08d}", tokenizer)
    return folder


def test_each_checkpoint_of_a_gpt_is_looked_at_as_by_itself(gpt_run):
    result = look(gpt_run, TEXT, checkpoints=True, device="cpu")
    assert result.data["numSteps"] == 2
    *steps, last = result.data["frames"]
    assert [frame["step"] for frame in (*steps, last)] == [3, 11, None]
    for frame in steps:
        alone = look(gpt_run / "checkpoints" / f"step-{frame['step']:08d}", TEXT, device="cpu")
        assert frame["weights"] == alone.data["frames"][0]["weights"] != last["weights"]
        assert frame["decisions"] == alone.data["frames"][0]["decisions"]
    assert last == look(gpt_run, TEXT, device="cpu").data["frames"][0]


def test_checkpoints_of_a_transformer_read_what_the_last_model_writes(transformer, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(transformer, folder)
    step = folder / "checkpoints" / "step-00000005"
    step.mkdir(parents=True)
    torch.manual_seed(5)
    save_transformer(Transformer(load_transformer(transformer).config), step, tiny_wordpiece())
    result = look(folder, TEXT, checkpoints=True, device="cpu")
    assert len(result.data["sequences"][1]) > 1
    first, last = result.data["frames"]
    written = [decision["label"] for decision in last["decisions"]]
    assert [decision["label"] for decision in first["decisions"]] == written
    assert first["weights"][2] != last["weights"][2]


def test_checkpoints_of_another_gpt_are_refused(gpt, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(gpt, folder)
    (folder / "checkpoints" / "step-00000003").mkdir(parents=True)
    config = replace(load_gpt(gpt).config, n_layer=2)
    save_gpt(Gpt(config), folder / "checkpoints" / "step-00000003", tiny_wordpiece())
    with refuses(CheckpointError, "another model"):
        look(folder, TEXT, checkpoints=True, device="cpu")


@pytest.mark.parametrize("name", ["gpt", "transformer"])
def test_attention_of_a_system_is_the_softmax_of_the_products(name, request):
    folder = request.getfixturevalue(name)
    model_type = "gpt2" if name == "gpt" else "marian"
    pair = () if name == "gpt" else ("the sea runs",)
    read = read_by_system(folder, model_type, TEXT, pair, device="cpu")
    outputs = read.reader.compute()
    parts = zip(outputs.head_vectors, outputs.attentions, read.reader.parts, strict=True)
    for layers, attentions, part in parts:
        assert len(layers) == part.layers
        for vectors, attention in zip(layers, attentions, strict=True):
            scores = vectors.queries @ vectors.keys.transpose(1, 2)
            assert scores.shape == attention.shape
            scores = scores.masked_fill(attention == 0, -torch.inf)
            torch.testing.assert_close(scores.softmax(-1), attention, rtol=0, atol=1e-5)


@pytest.mark.same_on_all_computers
@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("name", ["gpt", "transformer"])
def test_pages_of_systems_look_right(name, language, browser, request, tmp_path):
    folder = request.getfixturevalue(name)
    pair = "the sea" if name == "transformer" else ()
    path = look(folder, TEXT, pair=pair, language=language, device="cpu").save(
        tmp_path / "page.html"
    )
    if browser is None:
        pytest.skip("needs Chromium")
    with browser.new_page() as page:
        assert find_faults(page, path) == []
        if name == "gpt":
            assert page.locator("#block").count() == 0
            return
        shown = page.locator(".lines .to").count()
        page.select_option("#block", "1")
        assert page.locator(".lines .to").count() != shown
        assert page.locator(".grid-of-heads button").count() == 3 * 2
        page.select_option("#block", "0")
        assert page.locator(".grid-of-heads button").count() == 2 * 3
        assert page.locator(".lines .from").all_text_contents()[-1] == "[SEP]"


@pytest.mark.same_on_all_computers
def test_a_long_text_of_a_system_is_cut(gpt, transformer):
    result = look(gpt, "sea " * 50_000, device="cpu")
    assert (len(result.tokens), result.num_all) == (31, 50_001)
    long = {"text": "sea " * 50_000, "pair": "river " * 50_000}
    result = look(transformer, **long, max_length=7, device="cpu")
    assert (len(result.tokens), result.num_all) == (14, 100_002)
    assert len(look(gpt, TEXT, max_length=3, device="cpu").tokens) == 3


def test_after_a_cut_target_comes_its_next_token_and_not_the_end(transformer):
    tokenizer = tiny_wordpiece()
    ids = tokenizer.encode_ids(TEXT)
    for length, following in ((4, ids[3]), (len(ids), ids[-1]), (29, tokenizer.sep_id)):
        read = read_by_system(
            transformer, "marian", "the sea", (TEXT,), max_length=length, device="cpu"
        )
        assert list(read.reader.sequences[1]) == [tokenizer.cls_id, *ids[: length - 1]]
        assert read.next_id == following


WRONG = {
    "empty": (InputError, ("empty",), {"text": " "}),
    "no token": (InputError, ("text", "no token"), {"text": "\u200b"}),
    "bytes": (InputError, ("text", "bytes"), {"text": b"sea"}),
    "empty pair": (InputError, ("--pair", "empty"), {"pair": " "}),
    "digits": (ConfigError, ("--without",), {"without": "9" * 5000 + ".1"}),
    "pair": (InputError, ("--pair",), {"pair": ("a", "b")}),
    "layer": (ConfigError, ("--without",), {"without": "9.1"}),
    "length": (ConfigError, ("--max-length", "99"), {"max_length": 99}),
    "checkpoints": (CheckpointError, ("--checkpoints",), {"checkpoints": True}),
    "texts of no file": (ConfigError, ("--num-texts",), {"num_texts": 3}),
    "data": (ConfigError, ("--data",), {"data": "a.txt"}),
}


@pytest.mark.same_on_all_computers
@pytest.mark.parametrize("name", ["gpt", "transformer"])
@pytest.mark.parametrize("case", WRONG)
def test_wrong_requests_of_systems_are_refused(case, name, request):
    kind, parts, options = WRONG[case]
    text = options.get("text", TEXT)
    more = {key: value for key, value in options.items() if key != "text"}
    with refuses(kind, *parts):
        look(request.getfixturevalue(name), text, **more)


@pytest.mark.parametrize("name", sorted(SYSTEM_KINDS.keys() - INPUT_BUILDERS.keys()))
def test_systems_that_cannot_be_looked_into_are_refused(name, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": name}))
    with refuses(CheckpointError, "'bertsmith look' is for", SYSTEM_KINDS[name].noun):
        look(tmp_path, TEXT)


def test_the_run_of_a_gpt_has_a_slider(bertsmith, corpus_dir, tmp_path):
    run, page = tmp_path / "run", tmp_path / "page.html"
    bertsmith("pretrain", "gpt", "--corpus", corpus_dir, "--preset", "tiny", "--max-length", "32",
              "--steps", "2", "--checkpoint-every", "1", "--keep", "5", "--out", run,
              *FP32)  # fmt: skip
    bertsmith("look", run, "the river", "--checkpoints", "--out", page, *FP32[:2])
    html = page.read_text(encoding="utf-8")
    data = json.loads(html.split('id="data">')[1].split("</script>")[0])
    assert [frame["step"] for frame in data["frames"]] == [1, 2, None]
    assert data["frames"][1]["weights"] == data["frames"][2]["weights"]
