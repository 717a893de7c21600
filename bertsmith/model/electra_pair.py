"""ELECTRA in pre-training (Clark et al. 2020): a discriminator with its generator.

Each has its own encoder. They share all embeddings and the LayerNorm of the embeddings, as in the
released code. Each encoder projects the embeddings to the width of its layers.
"""

from dataclasses import replace
from pathlib import Path
from typing import cast

import torch

from bertsmith.errors import CheckpointError, ConfigError, option
from bertsmith.model.bert import BertModel
from bertsmith.model.config import BertConfig
from bertsmith.model.families import build_heads
from bertsmith.model.families.electra import ElectraConfig
from bertsmith.model.hub import COMPANION
from bertsmith.model.loading import build, load_model
from bertsmith.model.meta_init import on_meta_device
from bertsmith.model.model_folder import ModelFolder

GENERATOR = COMPANION
"""The generator's folder inside the discriminator's, and the prefix of its parameters' names."""

SHARED_EMBEDDINGS = ("word", "position", "token_type", "norm")
"""Parts of the embeddings that both models share."""
GENERATOR_SIZE = 0.25
"""Default width of a generator as a share of the discriminator's: that of the released small and
large models (base: a third)."""


def suggest_masked_lm_folder(folder: Path) -> str:
    """Return advice for a message: which folder to take for a model with a masked-LM head."""
    if (folder / GENERATOR).is_dir():
        return f"Use its generator, a masked language model: {folder / GENERATOR}."
    return "Use a folder that 'bertsmith pretrain' wrote."


class ElectraPair(BertModel):
    """A discriminator with its `generator` as a submodule."""

    def __init__(self, config: ElectraConfig, generator_config: ElectraConfig) -> None:
        super().__init__(config, build_heads(config, ["replaced_token"]))
        self.generator = BertModel(generator_config, build_heads(generator_config, ["masked_lm"]))
        for name in SHARED_EMBEDDINGS:
            setattr(self.generator.embeddings, name, getattr(self.embeddings, name))

    @classmethod
    def of(cls, discriminator: BertModel, generator: BertModel) -> "ElectraPair":
        """Combine two models into a pair, which takes over their weights.

        Raises:
            ConfigError: the models' embeddings differ, so they were not trained together.
        """
        check_shared(discriminator, generator)
        with on_meta_device():
            pair = cls(
                cast(ElectraConfig, discriminator.config), cast(ElectraConfig, generator.config)
            )
        generator_tensors = {
            f"{GENERATOR}.{name}": value for name, value in generator.state_dict().items()
        }
        pair.load_state_dict({**discriminator.state_dict(), **generator_tensors}, assign=True)
        pair.load_report = discriminator.load_report
        return pair.train(discriminator.training)

    @property
    def companions(self) -> dict[str, BertModel]:
        return {GENERATOR: self.generator}

    def set_dropout(self, probability: float, attention: float | None = None) -> None:
        """Set the dropout of both models, as `BertModel.set_dropout` does."""
        super().set_dropout(probability, attention)
        self.generator.set_dropout(probability, attention)


def new_pair(config: BertConfig, share: float | None = None) -> ElectraPair:
    """Build a random discriminator with its generator.

    The generator has `share` of the discriminator's width, by default a quarter.
    """
    electra_config = cast(ElectraConfig, config)
    return ElectraPair(electra_config, generator_config(electra_config, share or GENERATOR_SIZE))


def generator_config(config: ElectraConfig, share: float) -> ElectraConfig:
    """Return the config of a generator for a discriminator with `config`.

    The generator has as many layers; their width is the discriminator's times `share`. The paper
    found a quarter to a half to work best (section 3.2): too good a generator leaves too little to
    detect. Attention heads are as wide as the discriminator's if that divides the generator's
    width; else they have the next larger width that does.
    """
    width = max(1, round(share * config.hidden_size))
    max_heads = max(1, width // config.head_size)
    num_heads = next(count for count in range(max_heads, 0, -1) if width % count == 0)
    return replace(
        config,
        hidden_size=width,
        num_attention_heads=num_heads,
        intermediate_size=max(1, round(share * config.intermediate_size)),
    )


def has_generator(directory: Path) -> bool:
    return (directory / GENERATOR / "config.json").is_file()


def load_generator(directory: Path) -> BertModel:
    """Load the generator from a discriminator's folder.

    Raises:
        CheckpointError: the folder has no generator, or a damaged one.
    """
    if not has_generator(directory):
        raise CheckpointError(
            f"{directory}: there is no {GENERATOR}/, the model that replaced the tokens which "
            "this one learned to detect. A new, random one would damage the embeddings that both "
            f"share. Put its folder there ({directory / GENERATOR}), or pass {option('objective')} "
            "masked_lm."
        )
    return load_model(directory / GENERATOR, heads=["masked_lm"])


def build_trained(folder: ModelFolder) -> BertModel:
    """Build a folder's model, with its generator if it has one.

    Raises:
        CheckpointError: as `build`, or the generator's folder is damaged.
        ConfigError: the embeddings of the two differ.
    """
    model = build(folder)
    if not has_generator(folder.path):
        return model
    return ElectraPair.of(model, load_generator(folder.path))


def check_shared(discriminator: BertModel, generator: BertModel) -> None:
    """Raise ConfigError if the embeddings of two models differ."""
    in_generator = generator.embeddings.state_dict()
    for name, tensor in discriminator.embeddings.state_dict().items():
        if name.startswith(SHARED_EMBEDDINGS) and not torch.equal(tensor, in_generator[name]):
            raise ConfigError(
                f"embeddings.{name} ({list(tensor.shape)}) differs in the generator "
                f"({list(in_generator[name].shape)}); both models share them, so shape and values "
                "must be the same. Take both models from the same run."
            )
