"""A recipe of a comparison for BERT or a relative: a job of `bertsmith pretrain`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from bertsmith.comparison.budget import ComparisonBudget, RunLength, bert_training_length
from bertsmith.comparison.recipe import Recipe
from bertsmith.data.corpus import Corpus
from bertsmith.model.bert import BertModel
from bertsmith.model.loading import load_model
from bertsmith.pretraining.auto_size import tokens_per_second
from bertsmith.pretraining.build import build_objective
from bertsmith.pretraining.job import PretrainJob
from bertsmith.pretraining.resolve import resolve_pretraining, resolve_unmeasured
from bertsmith.pretraining.run import run_pretraining
from bertsmith.pretraining.settings import START_LENGTH
from bertsmith.training.budget import EVALUATION_LIMIT
from bertsmith.training.callback import Callback
from bertsmith.training.machine import computing_on
from bertsmith.training.objective import Measure
from bertsmith.training.run_config import build_identity, check_same, same_fields
from bertsmith.training.run_folder import CONFIG, RunFolder

SIZES_OF_PRESET = (
    "vocab_size",
    "num_hidden_layers",
    "hidden_size",
    "num_attention_heads",
    "intermediate_size",
)
"""Fields of the model's config that its preset and the corpus decide."""


@dataclass(frozen=True)
class BertRecipe(Recipe[PretrainJob]):
    """A named job of `bertsmith pretrain`."""

    def shortened(self, steps: int) -> Self:
        """Return the recipe with a run of only `steps` steps, all with rows of full length."""
        short = super().shortened(steps)
        # The default length of short rows, since another one is refused where no rows are short.
        full_length = short.job.with_pretraining(
            start_share=None, start_steps=None, start_length=START_LENGTH
        )
        return replace(short, job=full_length)

    @property
    def max_length(self) -> int:
        return self.job.pretraining.max_length

    def supports_task(self, task: str) -> bool:
        return True

    def training_length(self, budget: ComparisonBudget) -> RunLength:
        return bert_training_length(budget, self.job)

    def compared_settings(self) -> Mapping[str, Any]:
        # The settings with all defaults decided, but without timing this computer; those that a
        # resumed run may change, such as the number of threads, are left out.
        config = resolve_unmeasured(self.job)
        fields = same_fields(config)
        model = {
            name: fields[name]
            for name in ("family", "preset", "position_initializer", "word_initializer")
        }
        model |= {
            name: value for name, value in fields["model"].items() if name not in SIZES_OF_PRESET
        }
        return {
            "model": model,
            "pretraining": fields["pretraining"],
            "training": {
                "batch_size": config.batch_size,
                "micro_batch_size": config.micro_batch_size,
                **self.compute,
            },
            "optim": fields["optim"],
            "from": fields["source"],
        }

    def estimate_seconds(self) -> float:
        job = self.job
        if job.training.minutes is not None:
            return 60 * job.training.minutes
        corpus = Corpus.open(job.corpus)
        # `machine` is how the run computes: device, precision and processes.
        with computing_on(job.training) as machine:
            config = resolve_pretraining(job, corpus, machine)
            objective = build_objective(config, corpus)
            speed = tokens_per_second(objective, config.model, machine, config.optim.optimizer)
        first_full_step = objective.start_steps + 1  # earlier steps have shorter rows
        tokens = sum(batch.num_tokens for batch in objective.micro_batches(first_full_step))
        assert job.training.steps is not None
        training_seconds = job.training.steps * tokens / speed
        return (1 + EVALUATION_LIMIT) * training_seconds  # the second term is for evaluations

    def check_earlier(self, folder: RunFolder) -> None:
        previous = folder.read_run()[CONFIG]  # the settings with which the run began
        with computing_on(self.job.training, folder) as machine:
            corpus = Corpus.open(self.job.corpus)
            config = resolve_pretraining(self.job, corpus, machine, previous=previous)
        identity = build_objective(config, corpus).identity()  # facts about the data
        check_same(folder.path, previous, build_identity(config, identity))

    def train(
        self,
        folder: RunFolder,
        callbacks: Sequence[Callback],
        resume_command: str,
        measure: Measure,
    ) -> None:
        run_pretraining(
            self.job,
            folder.path,
            resume=folder.run_path.exists(),
            callbacks=callbacks,
            resume_command=resume_command,
            measure=measure,
        )

    def load(self, directory: Path) -> BertModel:
        return load_model(directory).eval()
