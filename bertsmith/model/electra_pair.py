"""ELECTRA while it learns (Clark et al. 2020): a discriminator and the generator it learns from.

Both are models of the family with encoders of their own. All embeddings are one and the same, with
their LayerNorm, as in the released code; each encoder makes them as wide as its layers.
"""

from dataclasses import replace
from pathlib import Path
from typing import cast

import torch

from bertsmith.errors import CheckpointError, ConfigError
from bertsmith.model.bert import BertConfig, BertModel
from bertsmith.model.electra import ElectraConfig
from bertsmith.model.heads import build_heads
from bertsmith.model.huggingface import find_checkpoint, load_model
from bertsmith.model.skeleton import skeleton

GENERATOR = "generator"
"""The generator's folder in that of the discriminator; its parameters' names begin with it."""

SHARED = ("word", "position", "token_type", "norm")
"""Parts of the embeddings that both models have in common."""


def who_guesses(folder: Path) -> str:
    """What to use in place of a folder whose model guesses no words."""
    if (folder / GENERATOR).is_dir():
        return f"Use its generator, which does: {folder / GENERATOR}."
    return "Use a folder that 'bertsmith pretrain' wrote."


class ElectraPair(BertModel):
    """The discriminator, and `generator` as a part of it."""

    def __init__(self, config: ElectraConfig, generator_config: ElectraConfig) -> None:
        super().__init__(config, build_heads(config, ["replaced_token"]))
        self.generator = BertModel(generator_config, build_heads(generator_config, ["masked_lm"]))
        for name in SHARED:
            setattr(self.generator.embeddings, name, getattr(self.embeddings, name))

    @classmethod
    def of(cls, discriminator: BertModel, generator: BertModel) -> "ElectraPair":
        """The pair of two models, which it takes the place of.

        Raises:
            ConfigError: their embeddings are not the same, so they have not learnt together.
        """
        check_shared(discriminator, generator)
        configs = (discriminator.config, generator.config)
        with skeleton():
            pair = cls(*cast(tuple[ElectraConfig, ElectraConfig], configs))
        theirs = {f"{GENERATOR}.{name}": value for name, value in generator.state_dict().items()}
        pair.load_state_dict({**discriminator.state_dict(), **theirs}, assign=True)
        pair.load_report = discriminator.load_report
        return pair.train(discriminator.training)

    @property
    def companions(self) -> dict[str, BertModel]:
        """The generator, which is saved in a folder of its own."""
        return {GENERATOR: self.generator}

    def set_dropout(self, probability: float, attention: float | None = None) -> None:
        """Use another dropout probability in both."""
        super().set_dropout(probability, attention)
        self.generator.set_dropout(probability, attention)


GENERATOR_SIZE = 0.25
"""The share of the discriminator's width that a generator has where nothing is said: that of the
released small and large models (base: a third)."""


def new_pair(config: BertConfig, share: float | None = None) -> ElectraPair:
    """A discriminator of this shape and a generator of a share of its width, both random."""
    shape = cast(ElectraConfig, config)
    return ElectraPair(shape, generator_config(shape, share or GENERATOR_SIZE))


def generator_config(config: ElectraConfig, share: float) -> ElectraConfig:
    """The shape of a generator of so many layers, and `share` of a discriminator's width.

    The paper found a quarter to a half to work best (section 3.2): a generator that guesses too
    well leaves nothing to learn. Heads are as wide as the discriminator's where that divides.
    """
    width = max(1, round(share * config.hidden_size))
    most = max(1, width // config.head_size)
    return replace(
        config,
        hidden_size=width,
        num_attention_heads=next(n for n in range(most, 0, -1) if width % n == 0),
        intermediate_size=max(1, round(share * config.intermediate_size)),
        pruned_heads={},
    )


def has_generator(directory: Path) -> bool:
    """Whether a folder has a generator's beside its own model."""
    return (directory / GENERATOR / "config.json").is_file()


def load_generator(directory: Path) -> BertModel:
    """The generator in the folder of a discriminator.

    Raises:
        CheckpointError: there is none, or it is damaged.
    """
    if not has_generator(directory):
        raise CheckpointError(
            f"{directory}: there is no {GENERATOR}/, the model that put in the tokens which this "
            "one learnt to tell. A new one would know no words, and spoil the embeddings that both "
            f"share. Put its folder there ({directory / GENERATOR}), or pass --objective masked_lm."
        )
    return load_model(directory / GENERATOR, heads=["masked_lm"])


def load_trained(path: str | Path) -> BertModel:
    """The model of a folder or of the hub, as a pair where there is a generator beside it."""
    directory = find_checkpoint(path)
    model = load_model(directory)
    if not has_generator(directory):
        return model
    return ElectraPair.of(model, load_generator(directory))


def check_shared(discriminator: BertModel, generator: BertModel) -> None:
    """Raise ConfigError if the embeddings of two models differ."""
    theirs = generator.embeddings.state_dict()
    for name, mine in discriminator.embeddings.state_dict().items():
        if name.startswith(SHARED) and not torch.equal(mine, theirs[name]):
            raise ConfigError(
                f"embeddings.{name} of generator and discriminator differ: they are "
                f"{list(theirs[name].shape)} and {list(mine.shape)}, or have other values. All "
                "embeddings are learnt together: take both models from the same run."
            )
