"""A T5 is transformers' T5ForConditionalGeneration, of both versions and in both directions."""

import json

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import transformers
from refusals import refuses
from tiny_marian import draw_sequences, pad
from tiny_t5 import SHAPE, VERSIONS, build_theirs
from transformers.models.t5.modeling_t5 import T5Attention

from bertsmith.errors import CheckpointError, ConfigError
from bertsmith.lineage.beam_search import BeamSearch
from bertsmith.lineage.encoder_decoder import TargetReader, generate_targets
from bertsmith.lineage.relative_bias import choose_buckets
from bertsmith.lineage.source_target import SourceTarget
from bertsmith.lineage.t5 import T5, T5Config
from bertsmith.lineage.t5_folder import T5_FOLDER, load_t5, save_t5
from bertsmith.model.dropout import dropout_seed
from bertsmith.model.weight_formats.safetensors_file import read_safetensors

EOS = SHAPE["eos_token_id"]
SOURCES = draw_sequences((6, 18, 2, 41, 7))
TARGETS = draw_sequences((10, 3, 26, 13, 10), seed=2)


@pytest.fixture(scope="module", params=list(VERSIONS))
def pair(request, tmp_path_factory):
    theirs = build_theirs(request.param)
    folder = tmp_path_factory.mktemp("t5")
    theirs.save_pretrained(folder)
    return load_t5(folder), theirs


def run_theirs(model):
    mask = (pad(SOURCES, -1) >= 0).long()
    return model(input_ids=pad(SOURCES, 0), attention_mask=mask, labels=pad(TARGETS, -100))


def test_logits_loss_and_gradients_are_theirs(pair):
    ours, theirs = pair
    expected = run_theirs(theirs)
    batch = SourceTarget.of(SOURCES, TARGETS, 0)
    logits = ours.compute_logits(ours.decode(batch))
    for index, row in zip(batch.order, logits.split(batch.target.lengths), strict=True):
        torch.testing.assert_close(row, expected.logits[index, : len(row)], atol=1e-5, rtol=1e-5)
    loss = F.cross_entropy(logits, batch.labels)
    torch.testing.assert_close(loss, expected.loss, atol=1e-5, rtol=0.0)
    for model, value in ((ours, loss), (theirs, expected.loss)):
        model.zero_grad()
        value.backward()
    first, last = theirs.encoder.block[0].layer, theirs.decoder.block[1].layer
    fed = last[2].DenseReluDense
    ups = [fed.wi] if hasattr(fed, "wi") else [fed.wi_0, fed.wi_1]
    up = getattr(ours.decoder[1].feed_forward, "up" if len(ups) == 1 else "up_gate")
    qkv = [getattr(first[0].SelfAttention, side).weight.grad for side in "qkv"]
    factor = ours.config.query_factor  # of our weights, so that their gradients are smaller by it
    qkv[0] = qkv[0] / factor
    gradients = [
        (ours.word.weight.grad, theirs.shared.weight.grad),
        (ours.encoder_bias.weight.grad, first[0].SelfAttention.relative_attention_bias.weight.grad),
        (
            ours.decoder_bias.weight.grad,
            theirs.decoder.block[0].layer[0].SelfAttention.relative_attention_bias.weight.grad,
        ),
        (ours.encoder[0].attention.qkv.weight.grad, torch.cat(qkv)),
        (
            ours.decoder[1].source_attention.query.weight.grad,
            last[1].EncDecAttention.q.weight.grad / factor,
        ),
        (up.weight.grad, torch.cat([each.weight.grad for each in ups])),
        (ours.decoder_norm.weight.grad, theirs.decoder.final_layer_norm.weight.grad),
    ]
    for mine, their in gradients:
        assert their.abs().max() > 1e-4
        torch.testing.assert_close(mine, their, atol=1e-5, rtol=1e-5)


def test_written_targets_are_theirs(pair):
    ours, theirs = pair
    for beams in (1, 3):
        choice = BeamSearch(beams) if beams > 1 else None
        answers = generate_targets(ours, SOURCES, 19, choice)
        for source, answer in zip(SOURCES, answers, strict=True):
            expected = theirs.generate(
                torch.tensor([source]), num_beams=beams, do_sample=False, max_new_tokens=19
            )[0, 1:].tolist()
            end = expected.index(EOS) + 1 if EOS in expected else 19
            assert answer == expected[:end]


def test_each_step_with_the_cache_is_the_whole_target_without_it(pair):
    ours, _ = pair
    targets = draw_sequences((9, 9, 9, 9, 9), seed=8)
    batch = SourceTarget.of(SOURCES, targets, 0)
    with torch.inference_mode():
        whole = ours.compute_logits(ours.decode(batch)).split(batch.target.lengths)
        reader = TargetReader(ours, SOURCES)
        read = [[0, *target[:-1]] for target in targets]
        for place in range(9):
            logits = reader.read([ids[place : place + 1] for ids in read])
            for index, expected in zip(batch.order, whole, strict=True):
                torch.testing.assert_close(logits[index], expected[place], atol=1e-5, rtol=1e-5)


def test_transformers_opens_what_we_write(pair, tmp_path):
    ours, theirs = pair
    save_t5(ours, tmp_path)
    again = transformers.T5ForConditionalGeneration.from_pretrained(tmp_path).eval()
    settings = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    is_first = settings["feed_forward_proj"] == "relu"
    assert settings["tie_word_embeddings"] is settings["scale_decoder_outputs"] is is_first
    tensors = read_safetensors(tmp_path / "model.safetensors")
    assert ("lm_head.weight" in tensors) is not is_first
    with torch.no_grad():
        logits = [run_theirs(model).logits for model in (again, theirs)]
    torch.testing.assert_close(*logits, atol=1e-5, rtol=1e-5)
    for name, tensor in load_t5(tmp_path).state_dict().items():
        assert torch.equal(tensor, ours.state_dict()[name])


def test_sizes_may_have_the_names_that_all_models_share(tmp_path):
    build_theirs("1.0").save_pretrained(tmp_path)
    expected = load_t5(tmp_path).config
    path = tmp_path / "config.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    for own, shared in T5_FOLDER.other_names.items():
        settings[shared] = settings.pop(own)
    path.write_text(json.dumps(settings))
    assert load_t5(tmp_path).config == expected
    assert transformers.AutoConfig.from_pretrained(tmp_path).d_kv == expected.d_kv


def test_an_older_folder_says_by_the_tie_whether_outputs_are_scaled(tmp_path):
    for version, is_scaled in (("1.0", True), ("1.1", False)):
        build_theirs(version).save_pretrained(tmp_path / version)
        path = tmp_path / version / "config.json"
        settings = json.loads(path.read_text(encoding="utf-8"))
        del settings["scale_decoder_outputs"]
        settings["tie_word_embeddings"] = is_scaled
        path.write_text(json.dumps(settings), encoding="utf-8")
        config = load_t5(tmp_path / version).config
        assert (config.scale_decoder_outputs, config.tie_word_embeddings) == (is_scaled, is_scaled)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("buckets", "distance"), [(32, 128), (8, 20)])
def test_buckets_are_theirs(bidirectional, buckets, distance):
    distances = np.arange(-700, 701)
    expected = T5Attention._relative_position_bucket(
        torch.from_numpy(distances), bidirectional, buckets, distance
    )
    found = choose_buckets(distances, buckets, distance, bidirectional=bidirectional)
    assert found.tolist() == expected.tolist()


def test_dropout_of_a_pair_does_not_depend_on_its_batch():
    torch.manual_seed(0)
    model = T5(T5Config(**SHAPE))
    model.set_dropout(0.2)
    model.train()

    def decode(numbers):
        sources, targets = ([each[n] for n in numbers] for each in (SOURCES, TARGETS))
        with dropout_seed(3, torch.device("cpu"), (3, 1)):
            batch = SourceTarget.of(sources, targets, 0, numbers)
            rows = model.decode(batch).split(batch.target.lengths)
        return {numbers[place]: row for place, row in zip(batch.order, rows, strict=True)}

    together = decode([0, 1, 2, 3, 4])
    for number in range(5):
        torch.testing.assert_close(together[number], decode([number])[number], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"feed_forward_proj": "gated-silu"}, ("feed_forward_proj", "gated-silu")),
        ({"num_heads": 0}, ("num_heads", "0")),
        ({"relative_attention_num_buckets": 6}, ("relative_attention_num_buckets", "6")),
        ({"relative_attention_max_distance": 3}, ("relative_attention_max_distance", "3")),
        ({"dropout_rate": 1.0}, ("dropout_rate", "1.0")),
        ({"eos_token_id": 101}, ("eos_token_id", "101")),
    ],
)
def test_a_shape_that_cannot_be_is_refused(changes, parts):
    with refuses(ConfigError, *parts):
        T5Config(**SHAPE | changes)


def test_a_folder_with_a_feature_that_we_lack_is_refused(tmp_path):
    build_theirs(feed_forward_proj="gated-silu").save_pretrained(tmp_path)
    with refuses(CheckpointError, "config.json", "feed_forward_proj", "gated-silu"):
        load_t5(tmp_path)
