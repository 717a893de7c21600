"""An ELMo is the plain network of its paper, reads each side alone, trains and scores sentences."""

import copy
import json
import pickle

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from refusals import refuses
from tiny_runs import KilledError, StopAtStep
from tiny_tokenizers import tiny_byte_bpe, tiny_wordpiece
from torch import nn

from bertsmith.data.batches import pack
from bertsmith.errors import CheckpointError, ConfigError, SettingError
from bertsmith.lineage.elmo import Elmo, ElmoConfig, LayerMix
from bertsmith.lineage.elmo_folder import load_elmo, save_elmo
from bertsmith.lineage.piece_characters import PADDING
from bertsmith.lineage.pretraining_run import SystemJob, pretrain_system
from bertsmith.lineage.settings import ElmoSettings
from bertsmith.lineage.system import new_elmo_config
from bertsmith.model.dropout import dropout_seed
from bertsmith.model.meta_init import without_values
from bertsmith.model.weight_formats.safetensors_file import read_safetensors
from bertsmith.tokenization.wordpiece import WordPieceTokenizer
from bertsmith.training.journal import read_journal
from bertsmith.training.settings import TrainingSettings

# torch says so of an LSTM that reads a plain tensor, as that of the plain network does.
pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections:UserWarning")

LENGTHS = (3, 29, 7, 7, 13, 4)
FILTERS = ((1, 3), (2, 5), (3, 7), (7, 11))
SIZE = 13
SHAPE = {
    "hidden_size": SIZE, "num_layers": 3, "cell_size": 19, "filters": FILTERS, "dropout": 0.2,
    "character_size": 5, "max_characters": 23,
}  # fmt: skip


def build_model(**changes):
    tokenizer = tiny_wordpiece()
    torch.manual_seed(0)
    model = Elmo(ElmoConfig(tokenizer.vocab_size, **SHAPE | changes))
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    model.set_characters(tokenizer)
    return model.eval()


def draw_sequences():
    rng = np.random.default_rng(0)
    return [rng.integers(0, tiny_wordpiece().vocab_size, length) for length in LENGTHS]


class PlainElmo:
    """The network of the paper by plain operations of torch, one sequence at a time."""

    def __init__(self, model):
        self.model = copy.deepcopy(model)
        for lstms in (self.model.left_to_right, self.model.right_to_left):
            lstms.layers = nn.ModuleList(map(self.copy_lstm, lstms.layers))

    @staticmethod
    def copy_lstm(ours):
        theirs = nn.LSTM(ours.input_size, ours.hidden_size, proj_size=ours.proj_size)
        theirs.load_state_dict(ours.state_dict())
        return theirs

    def embed(self, ids):
        cnn = self.model.cnn
        table = torch.from_numpy(self.model.characters.astype(np.int64))
        embedded = cnn.embedding.weight[table[torch.from_numpy(ids)]]  # [tokens, characters, size]
        maxima = []
        for filters in cnn.filters:
            windows = embedded.unfold(1, filters.weight.shape[-1], 1)
            read = torch.einsum("tpsw,osw->tpo", windows, filters.weight) + filters.bias
            maxima.append(read.max(1).values)
        hidden = torch.cat(maxima, -1).clamp(min=0)
        for highway in cnn.highways:
            gate = torch.sigmoid(hidden @ highway.gate.weight.T + highway.gate.bias)
            new = (hidden @ highway.transform.weight.T + highway.transform.bias).clamp(min=0)
            hidden = gate * new + (1 - gate) * hidden
        return hidden @ cnn.projection.weight.T + cnn.projection.bias

    def read(self, ids):
        """Return the token vectors, and those of each layer from left to right and the other way.

        The last are in the order of the text, too.
        """
        tokens = self.embed(ids)
        outputs = []
        for lstms, is_turned in ((self.model.left_to_right, 0), (self.model.right_to_left, 1)):
            hidden = tokens.flip(0) if is_turned else tokens
            vectors = []
            for number, lstm in enumerate(lstms.layers):
                new = lstm(hidden)[0]
                hidden = new if number == 0 else hidden + new
                vectors.append(hidden.flip(0) if is_turned else hidden)
            outputs.append(vectors)
        return tokens, *outputs


@pytest.mark.parametrize("cell_size", [19, SIZE], ids=["projected", "plain"])
def test_layers_are_those_of_the_plain_network(cell_size):
    model = build_model(cell_size=cell_size)
    assert [lstm.proj_size for lstm in model.left_to_right.layers] == [
        SIZE * (cell_size > SIZE)
    ] * 3
    plain = PlainElmo(model)
    sequences = draw_sequences()
    batch = pack(sequences)
    layers = [layer.split(batch.lengths) for layer in model.encode_layers(batch)]
    tops = [hidden.split(batch.lengths) for hidden in model.encode(batch)]
    for row, index in enumerate(batch.order):
        tokens, forward, backward = plain.read(sequences[index])
        expected = [(tokens, tokens), *zip(forward, backward, strict=True)]
        for layer, pair in zip(layers, expected, strict=True):
            torch.testing.assert_close(layer[row], torch.cat(pair, -1), atol=1e-5, rtol=1e-5)
        for top, vectors in zip(tops, (forward, backward), strict=True):
            torch.testing.assert_close(top[row], vectors[-1], atol=1e-5, rtol=1e-5)


def test_gradients_are_those_of_the_plain_network():
    model = build_model()
    plain = PlainElmo(model)
    sequences = draw_sequences()
    batch = pack(sequences)
    loss = sum(
        model.compute_logits(hidden).square().mean(-1).sum() for hidden in model.encode(batch)
    )
    loss.backward()
    expected = 0.0
    for ids in sequences:
        _, forward, backward = plain.read(ids)
        for hidden in (forward[-1], backward[-1]):
            expected = expected + plain.model.softmax(hidden).square().mean(-1).sum()
    expected.backward()
    torch.testing.assert_close(loss, expected, atol=1e-3, rtol=1e-5)
    theirs = dict(plain.model.named_parameters())
    for name, parameter in model.named_parameters():
        found = parameter.grad
        torch.testing.assert_close(found, theirs[name].grad, atol=1e-3, rtol=1e-4)


def test_the_vectors_of_pieces_are_those_of_the_plain_cnn():
    """Each different piece is computed once, without the padding that no maximum needs."""
    model = build_model().double()
    ids = np.concatenate(draw_sequences())
    assert len(set(ids)) < len(ids)
    vectors = model._embed(torch.from_numpy(ids))
    torch.testing.assert_close(vectors, PlainElmo(model).embed(ids), atol=1e-6, rtol=1e-6)
    short = ids[model.characters[ids][:, 6] == PADDING]
    vectors = model._embed(torch.from_numpy(short))
    torch.testing.assert_close(vectors, PlainElmo(model).embed(short), atol=1e-6, rtol=1e-6)


def test_new_vectors_of_pieces_differ_as_much_as_embeddings_of_torch():
    tokenizer = tiny_wordpiece()
    torch.manual_seed(0)
    model = Elmo(new_elmo_config(ElmoSettings("tiny"), tokenizer))
    model.set_characters(tokenizer)
    assert 0.5 < model.compute_piece_vectors().std(0).mean() < 2


def test_each_direction_reads_its_side_alone():
    model = build_model()
    ids, changed = 13, 5
    text = draw_sequences()[4]
    other = text.copy()
    other[changed] = tiny_wordpiece().token_to_id("river")
    assert len(text) == ids and (text != other).sum() == 1
    for vectors, others in zip(
        model.encode_layers(pack([text]))[1:], model.encode_layers(pack([other]))[1:], strict=True
    ):
        differs = (vectors - others).abs().amax(-1)
        forward, backward = (
            (vectors[:, half] - others[:, half]).abs().amax(-1)
            for half in (slice(SIZE), slice(SIZE, None))
        )
        assert differs[changed] > 1e-3
        assert forward[:changed].max() < 1e-6 < 1e-4 < forward[changed:].max()
        assert backward[changed + 1 :].max() < 1e-6 < 1e-4 < backward[: changed + 1].max()
        assert forward[changed + 1] > 1e-6 and backward[changed - 1] > 1e-6


def test_dropout_of_a_sequence_does_not_depend_on_its_batch():
    model = build_model().train()
    sequences = draw_sequences()
    with dropout_seed(3, torch.device("cpu"), (3, 1)):
        batch = pack(sequences).with_step_indices(range(len(sequences)))
        together = [hidden.split(batch.lengths) for hidden in model.encode(batch)]
    for row, index in enumerate(batch.order):
        with dropout_seed(3, torch.device("cpu"), (3, 1)):
            alone = model.encode(pack([sequences[index]]).with_step_indices([index]))
        for hidden, expected in zip(together, alone, strict=True):
            torch.testing.assert_close(hidden[row], expected, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(together[0][0], model.eval().encode(pack(sequences))[0][:29])


def test_the_mix_is_shares_of_layers_times_gamma():
    mix = LayerMix(3)
    layers = [torch.full((2, 4), float(number)) for number in (1, 2, 6)]
    torch.testing.assert_close(mix.shares, torch.full((3,), 1 / 3))
    torch.testing.assert_close(mix(layers), torch.full((2, 4), 3.0))
    with torch.no_grad():
        mix.weights.copy_(torch.tensor([1.0, 2.0, 4.0]).log())
        mix.scale.fill_(0.5)
    expected = 0.5 * (1 + 2 * 2 + 4 * 6) / 7
    mixed = mix(layers)
    torch.testing.assert_close(mixed, torch.full((2, 4), expected))
    mixed.sum().backward()
    assert mix.scale.grad.item() == pytest.approx(8 * 2 * expected)
    assert mix.weights.grad.sum().item() == pytest.approx(0.0, abs=1e-5)
    assert mix.weights.grad[2] > 0 > mix.weights.grad[0]


def test_a_copy_in_another_process_or_type_spells_the_same():
    """Copies of the training loop have no tensor's values but those of the parameters."""
    model = build_model()
    for other in (without_values(model).to(torch.bfloat16), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(other.characters, model.characters)


def test_a_folder_comes_back_and_another_is_refused(tmp_path):
    model = build_model()
    save_elmo(model, tmp_path, tiny_wordpiece())
    again = load_elmo(tmp_path)
    assert again.config == model.config and again.config.filters == FILTERS
    np.testing.assert_array_equal(again.characters, model.characters)
    batch = pack(draw_sequences())
    for vectors, expected in zip(
        again.encode_layers(batch), model.encode_layers(batch), strict=True
    ):
        assert torch.equal(vectors, expected)
    with refuses(CheckpointError, "the model predicts"):  # it could not be loaded
        save_elmo(model, tmp_path, WordPieceTokenizer(tiny_wordpiece().vocab[:-1]))
    settings = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert settings["model_type"] == "elmo" and settings["filters"][3] == [7, 11]
    assert "left_to_right.layers.2.weight_hr_l0" in read_safetensors(tmp_path / "model.safetensors")
    tiny_byte_bpe().save(tmp_path)
    (tmp_path / "vocab.txt").unlink()
    with refuses(CheckpointError, "tokenizer"):
        load_elmo(tmp_path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_layers", 0),
        ("dropout", 1.0),
        ("cell_size", 12),
        ("max_characters", 6),
        ("filters", []),
        ("filters", [[3]]),
        ("filters", [[3, 0]]),
        ("filters", 3),
        ("eos_token_id", -1),
    ],
)
def test_a_shape_that_cannot_be_is_refused(name, value):
    with refuses(ConfigError, name):
        ElmoConfig(**{"vocab_size": 101} | SHAPE | {name: value})


def test_a_new_model_has_the_papers_proportions():
    config = new_elmo_config(ElmoSettings("tiny", cell_size=1024), tiny_wordpiece())
    assert (config.hidden_size, config.num_layers, config.cell_size) == (128, 2, 1024)
    assert config.filters == ((1, 8), (2, 8), (3, 16), (4, 32), (5, 64), (6, 128), (7, 256))
    with refuses(SettingError, "--cell-size", "127", "128"):
        new_elmo_config(ElmoSettings("tiny", cell_size=127), tiny_wordpiece())


def losses(out):
    names = ("step", "loss", "forward_loss", "backward_loss", "gradient_norm", "held_out_loss")
    entries = read_journal(out / "journal.jsonl")
    return [{name: entry[name] for name in names if name in entry} for entry in entries]


def test_it_learns_and_resumes_bit_for_bit(corpus_dir, tmp_path):
    def make_job(**training):
        settings = {"steps": 12, "batch_size": 4, "eval_rows": 6, "threads": 1}
        settings |= {"precision": "fp32"} | training
        model = ElmoSettings("tiny", max_length=19)
        return SystemJob("elmo", corpus_dir, model, TrainingSettings(**settings))

    whole, out = tmp_path / "whole", tmp_path / "stopped"
    result = pretrain_system(make_job(), whole)
    entries = losses(whole)
    assert result["held_out_loss"] < entries[0]["held_out_loss"] - 0.2
    for entry in entries[1:]:
        if "loss" in entry:
            mean = (entry["forward_loss"] + entry["backward_loss"]) / 2
            assert entry["loss"] == pytest.approx(mean, rel=1e-5)
    job = make_job(checkpoint_every=4)
    with pytest.raises(KilledError):
        pretrain_system(job, out, callbacks=[StopAtStep(6)])
    pretrain_system(job, out, resume=True)
    assert losses(out) == entries
    ours, expected = (read_safetensors(path / "model.safetensors") for path in (out, whole))
    assert all(torch.equal(value, expected[name]) for name, value in ours.items())


def test_the_lines_train_and_score(corpus_dir, tmp_path, bertsmith, refused):
    out = tmp_path / "elmo"
    printed = bertsmith(
        "pretrain", "elmo", "--corpus", corpus_dir, "--out", out, "--preset", "tiny",
        "--cell-size", "128", "--max-length", "19", "--batch-size", "4", "--eval-rows", "6",
        "--precision", "fp32", "--threads", "1", "--steps", "2",
    )  # fmt: skip
    assert "next token loss" in printed and "previous token loss" in printed
    assert printed.count("perplexity") == 3 and f"bertsmith evaluate {out}" in printed
    card = (out / "README.md").read_text(encoding="utf-8")
    assert "library_name: bertsmith" in card and "transformers opens" not in card
    assert "evaluate elmo --minimal-pairs" in card and "next token perplexity" in card
    for command in (("generate", out, "a"), ("params", out), ("fill", out, "a [MASK]")):
        assert "commands are evaluate --minimal-pairs" in refused(*command)
    line = ("pretrain", "elmo", "--corpus", corpus_dir, "--out", tmp_path / "other")
    assert "--cell-size" in refused(*line, "--preset", "tiny", "--cell-size", "5", "--steps", "1")


def test_sentences_have_the_mean_of_both_directions(tmp_path, bertsmith, refused):
    folder, table, scores = (tmp_path / name for name in ("elmo", "pairs.csv", "scores.jsonl"))
    folder.mkdir()
    tokenizer = tiny_wordpiece()
    save_elmo(build_model(), folder, tokenizer)
    pairs = [("the river runs", "runs the river"), ("the sea is wide", "the sea"), ("a", "a")]
    rows = "".join(f"{good},{bad}\n" for good, bad in pairs)
    table.write_text(f"sentence_good,sentence_bad\n{rows}", encoding="utf-8")
    line = ("evaluate", folder, "--minimal-pairs", table, "--device", "cpu")
    report = json.loads(bertsmith(*line, "--scores", scores, "--json"))
    assert report["num_pairs"] == 3 and report["num_identical"] == 1
    model = PlainElmo(load_elmo(folder))

    def score(sentence):
        ids = tokenizer.encode_ids(sentence)
        _, forward, backward = model.read(
            np.array([tokenizer.cls_id, *ids, tokenizer.sep_id], dtype=np.int64)
        )
        after = F.log_softmax(model.model.softmax(forward[-1]), -1)[:-2]
        before = F.log_softmax(model.model.softmax(backward[-1]), -1)[2:]
        labels = torch.tensor(ids)[:, None]
        return sum(float(each.gather(1, labels).detach().sum()) for each in (after, before)) / 2

    for pair, text in zip(pairs, scores.read_text("utf-8").splitlines(), strict=True):
        found = json.loads(text)
        for sentence, name in zip(pair, ("score_good", "score_bad"), strict=True):
            assert found[name] == pytest.approx(score(sentence), abs=1e-4)
    report = json.loads(bertsmith(*line, "--max-length", "5", "--json"))
    assert report["num_truncated"] == 2
    assert "--max-length" in refused(*line, "--max-length", "2")
    assert "--minimal-pairs" in refused("evaluate", folder, "--data", table)
