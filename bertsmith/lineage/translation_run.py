"""The run of `finetune translate`: tables of pairs go in, a model folder comes out."""

import copy
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from bertsmith.config import to_jsonable
from bertsmith.data.translation_pairs import TranslationReader
from bertsmith.errors import SettingError, option
from bertsmith.lineage.encoder_decoder import SOURCES_AT_ONCE, EncoderDecoder, generate_targets
from bertsmith.lineage.encoder_decoder_folders import (
    ENCODER_DECODER_FOLDERS,
    EncoderDecoderFolder,
    find_encoder_decoder,
)
from bertsmith.lineage.generation import evaluating
from bertsmith.lineage.system_run import (
    ResolvedSystem,
    SystemConfig,
    SystemObjective,
    SystemRun,
    loop_settings,
)
from bertsmith.lineage.transformer import Transformer, TransformerConfig
from bertsmith.lineage.translation import TERM, EncodedPairs, Translation, encode_pairs
from bertsmith.lineage.translation_settings import TranslationSettings
from bertsmith.model.config import PRESETS, BertConfig
from bertsmith.pretraining.micro_batch import rows_of_micro_batch
from bertsmith.pretraining.resolve import LEARNING_RATES
from bertsmith.system.paths import check_outside
from bertsmith.system.torch_modes import drawing_from
from bertsmith.tokenization.auto import load_tokenizer
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.training.machine import Machine
from bertsmith.training.model_card import write_card
from bertsmith.training.run import BuiltRun, Trained

COMMAND = "finetune translate"
DEFAULT_PRESET = "tiny"
MIN_POSITIONS = 512
"""Smallest number of positions of a new model. Position vectors are not learned, so more of them
cost nothing."""
MAX_SCORED = 1000
"""Largest number of targets that are generated at the end of a run, to count the correct ones."""
CONTINUED_RATE = 3e-4
"""Default learning rate of a model that was trained before (`--model`)."""


@dataclass(frozen=True, kw_only=True)
class TranslationConfig(SystemConfig):
    """All settings of a run on pairs of texts."""

    source: str
    """The model that the run continues; empty for a new one."""
    max_length: int
    label_smoothing: float


@dataclass(frozen=True)
class TranslationData:
    """The encoded pairs, with the tokenizer and the model to begin with."""

    train: EncodedPairs
    held_out: EncodedPairs
    tokenizer: Tokenizer
    folder: EncoderDecoderFolder
    """The functions that load and save the model."""
    start: EncoderDecoder | None
    """The model that the run continues; None for a new one."""


class TranslationRun(SystemRun[TranslationData]):
    """Training of an encoder–decoder on pairs of texts."""

    def __init__(self, settings: TranslationSettings, out: Path, **options: Any) -> None:
        super().__init__(out, settings.training, **options)
        self.settings = settings

    def check(self) -> None:
        """Check that the settings give the run a length, and that the folder may be written.

        Raises:
            ConfigError: the run has no length; `RunFolder.check` refuses the folder; or the folder
                is that of the tokenizer or of the model to continue, or inside it.
        """
        settings = self.settings
        self.training.check_length()
        # A run is complete once its run.json has the key "result".
        self.folder.check(
            resume=self.resume, overwrite=self.overwrite, final_key="result", kind="fine-tuning"
        )
        check_outside(self.folder.path, settings.model, settings.tokenizer)

    def open_data(self) -> TranslationData:
        """Load the tokenizer, or the model to continue, and encode the pairs of both tables.

        Raises:
            SettingError: `max_length` is more than the model reads.
            BertsmithError: a folder cannot be loaded, or a table cannot be read.
        """
        settings = self.settings
        start = None
        if settings.model is None:
            assert settings.tokenizer is not None
            folder = ENCODER_DECODER_FOLDERS["marian"]
            tokenizer = load_tokenizer(settings.tokenizer)
            end = tokenizer.sep_id
        else:
            folder, directory = find_encoder_decoder(settings.model)
            tokenizer = load_tokenizer(directory)
            start = folder.load(directory)
            if settings.dropout is not None:
                start.set_dropout(settings.dropout)  # also in its config, which run.json stores
            end = start.end_id
            if start.longest is not None and settings.max_length > start.longest:
                raise SettingError(
                    "max_length", settings.max_length, f"at most the {start.longest} of the model"
                )
        pairs = [
            encode_pairs(
                TranslationReader(path, settings.columns),
                tokenizer,
                end,
                settings.max_length,
                skip_long=settings.skip_long,
            )
            for path in (settings.train, settings.eval)
        ]
        return TranslationData(pairs[0], pairs[1], tokenizer, folder, start)

    def resolve_config(self, data: TranslationData, machine: Machine) -> TranslationConfig:
        settings = self.settings
        if data.start is None:
            preset = settings.preset or DEFAULT_PRESET
            shape: Any = new_transformer_config(settings, preset, data.tokenizer)
            default_rate = LEARNING_RATES[preset]
        else:
            shape = data.start.config
            default_rate = CONTINUED_RATE
        length = round(fmean(data.train.num_tokens))  # of a pair
        return TranslationConfig(
            system="translate",
            source="" if settings.model is None else str(settings.model),
            model=shape,
            max_length=settings.max_length,
            label_smoothing=settings.label_smoothing,
            # None: the sizes of the model set no limit on the rows of a micro-batch.
            micro_batch_size=rows_of_micro_batch(self.training, length, None, machine),
            **loop_settings(self.training, settings.optim, default_rate, machine),
        )

    def build_objective(self, config: SystemConfig, data: TranslationData) -> SystemObjective:
        return Translation(
            data.train,
            data.held_out,
            start=config.model.decoder_start_token_id,
            batch_size=config.batch_size,
            micro_batch_size=config.micro_batch_size,
            seed=config.seed,
            label_smoothing=self.settings.label_smoothing,
            eval_rows=config.evaluations.rows,
        )

    def build_model(self, config: SystemConfig, data: TranslationData) -> EncoderDecoder:
        if data.start is not None:
            # The base class also builds a model to time some rows, and changes its dtype for that.
            return copy.deepcopy(data.start)
        with drawing_from(config.seed):  # the caller's random numbers do not change
            return Transformer(config.model)

    def build_run(
        self, resolved: ResolvedSystem[TranslationData], machine: Machine, notes: tuple[str, ...]
    ) -> BuiltRun:
        config, data, checkpoint = resolved.config, resolved.data, resolved.checkpoint
        if checkpoint is None:
            model = self.build_model(config, data)
        else:
            model = data.folder.load(checkpoint.path)
        if model.longest is not None:  # saved with the tokenizer, for other programs
            data.tokenizer.model_max_length = model.longest
        return BuiltRun(
            model.to(machine.device),
            resolved.objective,
            replace(config, notes=notes),
            partial(_save, data.folder, model, data.tokenizer),
            facts={  # entries of the run's run.json
                "command": COMMAND,
                "settings": to_jsonable(self.settings),
                "data": resolved.facts,
            },
            checkpoint=checkpoint,
        )

    def write_beside_model(self) -> None:
        """Remove checkpoints and draw the curves; `build_result` writes the card, with scores."""
        self.folder.remove_checkpoints()
        self.draw_curves()

    def state_before_result(self) -> str:
        """Describe a run that the user stopped during its last step, for the message."""
        return "stopped after its last step; the model is saved, but not yet scored"

    def build_result(
        self, resolved: ResolvedSystem[TranslationData], trained: Trained
    ) -> dict[str, Any]:
        """Score the saved model, and write the card and the result."""
        data = resolved.data
        model = data.folder.load(self.folder.path)
        scores = score_generation(model, data.held_out)
        losses = trained.summary.held_out
        evaluation = {
            "loss": losses[f"held_out_{TERM}_loss"],
            "token_accuracy": losses[f"held_out_{TERM}_accuracy"],
            **scores,
        }
        facts = {
            **self.folder.read_run(),
            "result": {
                "task": "translate",
                "target": "of a source and a target",  # the card writes "examples" before it
                "num_train": len(data.train),
                "evaluation": evaluation,
            },
        }
        write_card(self.folder.path, facts)
        self.folder.write_run(facts)
        return {**super().build_result(resolved, trained), "evaluation": evaluation}


def _save(
    folder: EncoderDecoderFolder, model: EncoderDecoder, tokenizer: Tokenizer, directory: Path
) -> None:
    folder.save(model, directory, tokenizer)


def new_transformer_config(
    settings: TranslationSettings, preset: str, tokenizer: Tokenizer
) -> TransformerConfig:
    """Build the config of a new Transformer, each stack as deep and wide as a BERT of its size."""
    size = PRESETS[preset]
    width, layers = size["hidden_size"], size["num_hidden_layers"]
    heads = BertConfig.proportions(width)["num_attention_heads"]
    return TransformerConfig(
        vocab_size=tokenizer.vocab_size,
        d_model=width,
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_dim=4 * width,
        decoder_ffn_dim=4 * width,
        max_position_embeddings=max(MIN_POSITIONS, settings.max_length),
        dropout=0.1 if settings.dropout is None else settings.dropout,
        pad_token_id=tokenizer.pad_id,
        eos_token_id=tokenizer.sep_id,
        decoder_start_token_id=tokenizer.cls_id,
    )


def score_pairs(
    model: EncoderDecoder,
    reader: TranslationReader,
    tokenizer: Tokenizer,
    max_length: int | None = None,
    limit: int | None = None,
) -> dict[str, Any]:
    """Score a model on the pairs of a table: loss and accuracy of tokens, and `exact_match`.

    Args:
        max_length: maximum number of tokens of a text; by default as many as the model reads.
        limit: the number of pairs to take, from the first; None takes all.

    Raises:
        ConfigError: `max_length` or `limit` is too small.
        InputError: the table cannot be read, or a text is too long.
    """
    if max_length is not None and max_length < 2:
        raise SettingError("max_length", max_length, "2 or more")
    longest = sys.maxsize if model.longest is None else model.longest
    limit_of_tokens = longest if max_length is None else min(max_length, longest)
    advice = "Shorten the text, or leave the row out."
    if limit_of_tokens < longest:
        advice = f"Give a larger {option('max_length')}, or shorten the text, or leave the row out."
    pairs = encode_pairs(
        reader, tokenizer, model.end_id, limit_of_tokens, limit=limit, advice=advice
    )
    objective = Translation(pairs, pairs, model.start_id, batch_size=1, eval_rows=len(pairs))
    with evaluating(model):
        losses = objective.evaluate(model)
    return {
        "loss": losses[f"held_out_{TERM}_loss"],
        "token_accuracy": losses[f"held_out_{TERM}_accuracy"],
        **score_generation(model, pairs, len(pairs)),
    }


def score_generation(
    model: EncoderDecoder, pairs: EncodedPairs, max_pairs: int = MAX_SCORED
) -> dict[str, float]:
    """Generate the targets of the first pairs greedily, and compare them with the table's.

    `exact_match` is the share of generated targets that equal the table's, token for token.
    """
    pairs = pairs.first(max_pairs)
    # Targets end with the end token. An answer that is cut here has none, so it equals no target.
    longest = max(map(len, pairs.targets))
    num_right = 0
    for first in range(0, len(pairs), SOURCES_AT_ONCE):
        batch = slice(first, first + SOURCES_AT_ONCE)
        generated = generate_targets(model, pairs.sources[batch], longest)
        for answer, target in zip(generated, pairs.targets[batch], strict=True):
            num_right += list(answer) == list(target)
    return {"exact_match": num_right / len(pairs), "num_examples": len(pairs)}


def finetune_translation(
    settings: TranslationSettings,
    out: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    callbacks: Any = (),
    resume_command: str = "the same call with resume=True",
) -> dict[str, Any]:
    """Train a model on pairs of texts, score it, and return the summary with the scores.

    Args:
        out: the folder of the run, in which the model will be.
        resume: whether to continue the run in `out`.
        overwrite: whether a new run may replace what is in `out`.
        callbacks: objects that are told of each step and evaluation, such as a display.
        resume_command: what the user does to resume the run, for messages.

    Raises:
        BertsmithError: settings, inputs or folder do not allow it (nothing was written), or the
            run had to stop.
        Interrupted: the user asked to stop.
    """
    return TranslationRun(
        settings,
        out,
        resume=resume,
        overwrite=overwrite,
        callbacks=callbacks,
        resume_command=resume_command,
    ).run()
