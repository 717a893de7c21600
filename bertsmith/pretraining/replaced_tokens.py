"""The objective of ELECTRA, replaced token detection (Clark et al. 2020, section 2).

The generator, a small masked LM, predicts the tokens that masking chose, most of which it sees as
[MASK]. A token sampled from each prediction replaces the original. The discriminator classifies
every real token, [CLS] and [SEP] included (as in the released code), as original or replaced. A
sample that equals the original counts as original. Random numbers for sampling come with the batch,
so a step is a function of corpus, seed, step and weights. No gradient passes through the samples.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.metrics.classification import Counts, Scores, class_scores, roc_auc
from bertsmith.model.bert import BertModel
from bertsmith.model.config import BertConfig
from bertsmith.model.electra_pair import ElectraPair, new_pair
from bertsmith.model.heads import MaskedLMHead
from bertsmith.model.shape_buckets import fill_up
from bertsmith.pretraining.objective import Pretraining, held_out_figures, terms_on_cpu
from bertsmith.training.interleave import interleave
from bertsmith.training.objective import LossTerm


class ReplacedTokens(Pretraining):
    """The objective of ELECTRA; its model is an `ElectraPair`, a discriminator with its generator.

    Rows and masks are those of masked LM. The loss is that of Clark et al. 2020, section 2: the
    generator's masked LM (`mlm`), and `discriminator_weight` times the discriminator's loss over
    all tokens (`rtd`).
    """

    def new_model(self, config: BertConfig) -> BertModel:
        """Build a discriminator of this shape with a generator.

        The setting `generator_size` is the generator's width as a share of the discriminator's.
        """
        return new_pair(config, self.settings.generator_size)

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"mlm": len(batch.targets["masked_labels"]), "rtd": batch.num_tokens}

    def losses(self, model: BertModel, batch: Batch) -> dict[str, LossTerm]:
        """Compute `mlm` of the generator and `rtd` of the discriminator."""
        return self._detect(model, batch).terms

    def evaluate_part(self, model: BertModel, part: int, num_parts: int) -> list[Any]:
        """Classify the tokens of every `num_parts`-th eval batch, from batch `part` on."""
        detections = [
            self._detect(model, batch) for batch in self.held_out_batches(model, part, num_parts)
        ]
        return [detection.on_cpu() for detection in detections]

    def combine(self, results: Sequence[list[Any]]) -> dict[str, float]:
        """Compute losses and accuracies on the eval rows, and scores of detecting replaced tokens.

        `held_out_rtd_precision`, `_recall` and `_auc` measure how replaced tokens are detected;
        `held_out_rtd_replaced` is the share of replaced tokens.
        """
        if self.held_out is None:
            return {}
        detections: list[Detection] = interleave(results)
        is_replaced = torch.cat([detection.is_replaced for detection in detections])
        logits = torch.cat([detection.logits for detection in detections])
        figures = detection_figures(is_replaced.long().numpy(), logits.double().numpy())
        return {
            **held_out_figures(detection.terms for detection in detections),
            **{f"held_out_rtd_{name}": value for name, value in figures.items()},
        }

    def _detect(self, model: BertModel, batch: Batch) -> "Detection":
        """Replace tokens by the generator's samples, and classify all tokens."""
        # A pair is the discriminator itself, with its generator as a submodule.
        pair = cast(ElectraPair, model)
        generator = pair.generator
        head = cast(MaskedLMHead, generator.heads["masked_lm"])
        labels = batch.targets["masked_labels"]
        positions = batch.targets["masked_positions"]
        mlm_loss, mlm_correct, samples = head.loss_and_samples(
            generator.encode(batch).index_select(0, positions),
            generator.embeddings.word.weight,
            labels,
            batch.targets["draws"],
        )
        corrupted = replace(batch, input_ids=batch.input_ids.index_copy(0, positions, samples))
        is_replaced = torch.zeros(batch.num_tokens, device=samples.device)
        is_replaced = is_replaced.index_copy(0, positions, (samples != labels).float())
        # On a CPU `fill_up` appends rows of zeros up to a rounded number, so that matrix products
        # have few shapes (each new one costs oneDNN some milliseconds); their logits are cut off.
        filled_logits = pair.heads["replaced_token"](fill_up(pair.encode(corrupted)))
        logits = filled_logits[: batch.num_tokens].float()
        loss = F.binary_cross_entropy_with_logits(logits, is_replaced, reduction="sum")
        num_correct = ((logits > 0) == (is_replaced > 0)).sum()
        terms = {
            "mlm": LossTerm(mlm_loss, mlm_correct, len(labels)),
            "rtd": LossTerm(
                loss, num_correct, batch.num_tokens, self.settings.discriminator_weight
            ),
        }
        return Detection(terms, logits.detach(), is_replaced)


@dataclass(frozen=True)
class Detection:
    """A batch classified by the discriminator.

    Shapes: `logits`, fp32, and `is_replaced`, fp32 0 or 1, are `[tokens]`.
    """

    terms: dict[str, LossTerm]
    logits: Tensor
    is_replaced: Tensor

    def on_cpu(self) -> "Detection":
        return Detection(terms_on_cpu(self.terms), self.logits.cpu(), self.is_replaced.cpu())


def detection_figures(is_replaced: Counts, logits: Scores) -> dict[str, float]:
    """Compute "precision", "recall" and "auc" of detecting replaced tokens.

    The share of replaced tokens among all tokens is returned, too, as "replaced".

    Args:
        is_replaced: 0 or 1, int64 `[tokens]`.
        logits: those above 0 predict a replaced token, fp64 `[tokens]`.
    """
    is_detected = logits > 0
    num_correct, num_detected = is_replaced @ is_detected, is_detected.sum()
    # `class_scores` takes three counts for each class, and here there is one class: the tokens that
    # are rightly called replaced, those that are called replaced, and those that are replaced.
    counts = np.array([[num_correct], [num_detected], [is_replaced.sum()]])
    (scores,) = class_scores(["replaced"], *counts)
    return {
        "precision": scores.precision,
        "recall": scores.recall,
        "auc": roc_auc(is_replaced, logits),
        "replaced": float(is_replaced.mean()),
    }
