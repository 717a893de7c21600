"""`bertsmith params`: every number that it prints comes from the model."""

import json
from pathlib import Path
from typing import Any

import pytest
from tiny_models import save_tiny, tiny_config
from transformers import (
    AlbertConfig,
    AlbertModel,
    DistilBertConfig,
    DistilBertModel,
    ElectraConfig,
    ElectraModel,
    RobertaConfig,
    RobertaModel,
)

from bertsmith import cli
from bertsmith.model.loading import load_model


def params(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    cli.main(["params", *words])
    return capsys.readouterr().out


def facts(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    found = json.loads(params(capsys, *words, "--json"))
    assert isinstance(found, dict)
    return found


def test_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    text = params(capsys, "base")
    for part in ("109,482,240", "108,770,304", "12·L·H²", "biases of attention", "+590,592"):
        assert part in text
    by_sizes = facts(capsys, "--layers", "12", "--hidden", "768")
    assert by_sizes == facts(capsys, "base")
    assert by_sizes["bytes"] == {"fp32": 4 * 110_106_428, "bf16": 2 * 110_106_428}
    config = facts(
        capsys, "tiny", "--layers", "3", "--hidden", "30", "--heads", "5", "--intermediate", "47",
        "--vocab-size", "101", "--max-positions", "37", "--type-vocab", "1",
    )["config"]  # fmt: skip
    assert isinstance(config, dict)
    assert [config[name] for name in (
        "num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size",
        "vocab_size", "max_position_embeddings", "type_vocab_size",
    )] == [3, 30, 5, 47, 101, 37, 1]  # fmt: skip


def test_a_folder_counts_what_it_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(save_tiny(tmp_path / "m", "classify", labels=("a", "b", "c")))
    found = facts(capsys, folder)
    held = sum(each.numel() for each in load_model(folder).parameters())
    assert found["parameters"] == held
    components = found["components"]
    assert isinstance(components, dict)
    assert components["classify head"]["parameters"] == 3 * (tiny_config().hidden_size + 1)
    assert "the folder: " not in params(capsys, folder)


def test_a_size_of_every_family_as_transformers_counts_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shape: dict[str, Any] = {
        "hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2,
        "intermediate_size": 512, "vocab_size": 30522,
    }  # fmt: skip
    halved: dict[str, Any] = {"dim": 128, "n_layers": 1, "n_heads": 2, "hidden_dim": 512}
    positions: dict[str, Any] = {"max_position_embeddings": 514, "type_vocab_size": 1}
    encoders = {
        "roberta": RobertaModel(RobertaConfig(**shape, **positions), add_pooling_layer=False),
        "distilbert": DistilBertModel(DistilBertConfig(**halved)),
        "electra": ElectraModel(ElectraConfig(**shape, embedding_size=128)),
        "albert": AlbertModel(AlbertConfig(**shape, embedding_size=64)),
    }
    for family, encoder in encoders.items():
        held = sum(each.numel() for each in encoder.parameters())
        assert facts(capsys, "tiny", "--family", family)["encoder"] == held


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "neither a size, a folder nor --layers"),
        ("--layers 2", "nor --hidden"),
        ("bsae", "'bsae', which is neither a size nor a folder here. Sizes are tiny"),
        ("no/such/folder", "there is no such folder"),
        ("--layers 2 --hidden 30 --heads 4", "hidden_size is 30 with 4 attention"),
        ("base --hidden 0", "hidden_size is 0"),
        ("base --embedding 64", "for the family bert, which has none. Leave it out, or"),
        ("base --shared all", "give --family albert"),
        ("m --hidden 30", "--hidden: given beside the folder"),
        ("m --family albert", "--family: given beside the folder"),
    ],
)
def test_what_cannot_be_is_one_line(
    line: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(save_tiny(tmp_path / "m").parent)
    with pytest.raises(SystemExit) as stop:
        cli.main(["params", *line.split()])
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
