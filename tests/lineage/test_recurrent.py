"""An LSTM or GRU is torch's, reads packed rows, trains by the same loop and continues texts."""

import json

import numpy as np
import pytest
import torch
from refusals import refuses
from tiny_runs import KilledError, StopAtStep
from torch import nn

from bertsmith.data.batches import pack
from bertsmith.errors import CheckpointError, ConfigError
from bertsmith.lineage.beam_search import BeamSearch
from bertsmith.lineage.generation import Sampling, generate
from bertsmith.lineage.pretraining_run import SystemJob, pretrain_system
from bertsmith.lineage.recurrent import RecurrentConfig, RecurrentLanguageModel, TimeOrder
from bertsmith.lineage.recurrent_folder import load_recurrent, save_recurrent
from bertsmith.lineage.settings import RecurrentSettings
from bertsmith.lineage.system import SYSTEMS
from bertsmith.model.dropout import dropout_seed
from bertsmith.model.weight_formats.safetensors_file import read_safetensors
from bertsmith.training.journal import read_journal
from bertsmith.training.settings import OptimSettings, TrainingSettings

LENGTHS = (1, 29, 7, 7, 13, 2)
SHAPE = {"vocab_size": 101, "hidden_size": 37, "num_layers": 2, "eos_token_id": 2}


@pytest.fixture(params=["lstm", "gru"])
def model(request):
    torch.manual_seed(0)
    model = RecurrentLanguageModel(RecurrentConfig(**SHAPE, cell=request.param, dropout=0.2))
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model.eval()


def draw_sequences():
    rng = np.random.default_rng(0)
    return [rng.integers(3, SHAPE["vocab_size"], length) for length in LENGTHS]


def test_layers_are_torchs_with_the_same_weights(model):
    """The truth is one module of torch with all layers, which reads each sequence alone."""
    cell = nn.LSTM if model.config.cell == "lstm" else nn.GRU
    theirs = cell(37, 37, num_layers=2, batch_first=True)
    theirs.load_state_dict(
        {
            name.replace("_l0", f"_l{number}"): tensor
            for number, layer in enumerate(model.layers)
            for name, tensor in layer.state_dict().items()
        }
    )
    batch = pack(draw_sequences())
    packed = model.compute_logits(model.encode(batch)).split(batch.lengths)
    for index, logits in zip(batch.order, packed, strict=True):
        ids = torch.from_numpy(draw_sequences()[index])[None]
        hidden, _ = theirs(model.word(ids))
        expected = (hidden @ model.word.weight.T)[0]
        torch.testing.assert_close(logits, expected, atol=1e-5, rtol=1e-5)
    total = sum(logits.square().sum() for logits in packed)
    total.backward()
    expected = torch.autograd.grad(
        sum(
            (theirs(model.word(torch.from_numpy(ids)[None]))[0] @ model.word.weight.T)
            .square()
            .sum()
            for ids in draw_sequences()
        ),
        theirs.weight_hh_l0,
    )[0]
    found = model.layers[0].weight_hh_l0.grad
    torch.testing.assert_close(found, expected, atol=1e-3, rtol=1e-4)


@pytest.mark.parametrize("is_backward", [False, True])
@pytest.mark.parametrize("lengths", [(29, 29, 29), (29, 23, 2), (29, 7, 1)], ids=str)
def test_a_layer_reads_each_sequence_as_if_alone(model, lengths, is_backward):
    """Of these lengths rows are padded, but for the last, of which torch makes packed rows."""
    layer = model.layers[0]
    hidden = torch.randn(sum(lengths), 37, generator=torch.Generator().manual_seed(0))
    hidden.requires_grad_()
    order = TimeOrder(lengths, torch.device("cpu"), is_backward=is_backward)
    together = order.read(layer, hidden)
    alone = [
        layer(row.flip(0))[0].flip(0) if is_backward else layer(row)[0]
        for row in hidden.split(lengths)
    ]
    torch.testing.assert_close(together, torch.cat(alone), atol=1e-5, rtol=1e-5)
    (found,) = torch.autograd.grad(together.square().sum(), hidden)
    (expected,) = torch.autograd.grad(torch.cat(alone).square().sum(), hidden)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


def test_dropout_of_a_sequence_does_not_depend_on_its_batch(model):
    model.train()
    sequences = draw_sequences()
    with dropout_seed(3, torch.device("cpu"), (3, 1)):
        batch = pack(sequences).with_step_indices(range(len(sequences)))
        together = model.encode(batch).split(batch.lengths)
    for index, hidden in zip(batch.order, together, strict=True):
        with dropout_seed(3, torch.device("cpu"), (3, 1)):
            alone = model.encode(pack([sequences[index]]).with_step_indices([index]))
        torch.testing.assert_close(hidden, alone, atol=1e-5, rtol=1e-5)


def continue_without_state(model, prompt, number):
    answer = []
    with torch.no_grad():
        while len(answer) < number and 2 not in answer:
            hidden = model.encode(pack([np.array([*prompt, *answer])]))
            answer.append(int(model.compute_logits(hidden[-1:]).argmax()))
    return answer


def test_a_kept_state_gives_the_tokens_of_the_whole_text(model):
    prompts = [ids.tolist() for ids in draw_sequences()]
    answers = generate(model, prompts, 15)
    assert answers == [continue_without_state(model, prompt, 15) for prompt in prompts]
    sampling = Sampling(temperature=1.5, seed=1)
    assert generate(model, prompts, 9, sampling)[:3] == generate(model, prompts[:3], 9, sampling)
    one, best = (generate(model, prompts, 9, BeamSearch(beams)) for beams in (1, 6))
    assert [len(answer) <= 9 for answer in one] == [True] * 6 and one != best


def test_new_embeddings_are_those_of_torch():
    torch.manual_seed(0)
    embeddings = RecurrentLanguageModel(RecurrentConfig(vocab_size=997, hidden_size=13)).word.weight
    assert abs(embeddings.mean()) < 0.05
    assert 0.95 < embeddings.std() < 1.05


def test_a_folder_comes_back_and_another_is_refused(model, tmp_path):
    save_recurrent(model, tmp_path)
    again = load_recurrent(tmp_path)
    assert again.config == model.config
    for name, tensor in again.state_dict().items():
        assert torch.equal(tensor, model.state_dict()[name])
    names = read_safetensors(tmp_path / "model.safetensors").keys()
    assert {"word.weight", "layers.1.weight_hh_l0"} <= names
    path = tmp_path / "config.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(settings | {"cell": "elman"}), encoding="utf-8")
    with refuses(CheckpointError, "config.json", "cell", "elman"):
        load_recurrent(tmp_path)


@pytest.mark.parametrize(("name", "value"), [("num_layers", 0), ("dropout", 1.0), ("cell", "rnn")])
def test_a_shape_that_cannot_be_is_refused(name, value):
    with refuses(ConfigError, name, str(value)):
        RecurrentConfig(**SHAPE | {name: value})


def losses(out):
    names = ("step", "loss", "gradient_norm", "held_out_loss")
    entries = read_journal(out / "journal.jsonl")
    return [{name: entry[name] for name in names if name in entry} for entry in entries]


def test_it_learns_and_resumes_bit_for_bit(corpus_dir, tmp_path):
    def make_job(**training):
        settings = {"steps": 12, "batch_size": 4, "eval_rows": 6, "threads": 1}
        settings |= {"precision": "fp32"} | training
        model = RecurrentSettings("tiny", max_length=19)
        return SystemJob("lstm", corpus_dir, model, TrainingSettings(**settings))

    whole, out = tmp_path / "whole", tmp_path / "stopped"
    result = pretrain_system(make_job(), whole)
    assert result["held_out_lm_loss"] < losses(whole)[0]["held_out_loss"] - 0.2
    job = make_job(checkpoint_every=4)
    with pytest.raises(KilledError):
        pretrain_system(job, out, callbacks=[StopAtStep(6)])
    pretrain_system(job, out, resume=True)
    assert losses(out) == losses(whole)
    ours, expected = (read_safetensors(path / "model.safetensors") for path in (out, whole))
    assert all(torch.equal(value, expected[name]) for name, value in ours.items())


@pytest.mark.same_on_all_computers
@pytest.mark.parametrize("system", ["lstm", "elmo"])
def test_an_optimizer_that_would_leave_out_recurrent_layers_is_refused(
    corpus_dir, tmp_path, system
):
    settings = SYSTEMS[system].settings("tiny", max_length=19)
    training = TrainingSettings(steps=1, threads=1, precision="fp32")
    job = SystemJob(system, corpus_dir, settings, training, OptimSettings(optimizer="muon"))
    with refuses(ConfigError, "--optimizer: found 'muon'", "adamw"):
        pretrain_system(job, tmp_path / "out")


def test_a_run_of_minutes_is_planned_in_bf16_too(corpus_dir, tmp_path):
    """The layers stay in fp32, also where a few rows are timed before the run."""
    training = TrainingSettings(minutes=0.02, batch_size=4, threads=1, precision="bf16")
    job = SystemJob("lstm", corpus_dir, RecurrentSettings("tiny", max_length=19), training)
    assert pretrain_system(job, tmp_path / "lstm")["steps"] >= 1


def test_the_lines_train_and_continue(corpus_dir, tmp_path, bertsmith, refused):
    out = tmp_path / "gru"
    printed = bertsmith(
        "pretrain", "lstm", "--corpus", corpus_dir, "--out", out, "--preset", "tiny", "--cell",
        "gru", "--max-length", "19", "--batch-size", "4", "--precision", "fp32", "--threads", "1",
        "--steps", "2",
    )  # fmt: skip
    assert "bits per byte" in printed and f"bertsmith generate {out}" in printed
    card = (out / "README.md").read_text(encoding="utf-8")
    assert "library_name: bertsmith" in card and "transformers opens" not in card
    line = ("generate", out, "", "--device", "cpu", "--max-new-tokens", "4", "--json")
    assert json.loads(bertsmith(*line))["num_tokens"] <= 4
    assert "commands are generate" in refused("fill", out, "a [MASK]")
