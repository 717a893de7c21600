"""A T5 as a classifier, which writes the name of the class (Raffel et al. 2020, section 2.4).

The source is the text and the target is the name, as in translation, so nothing is added to the
network of t5.py. The probability of a class is that of its name.
`model/family.py` describes the fields of `Family` in full; a comment at each table says in short
what it maps.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertsmith.data.batches import Batch
from bertsmith.errors import ConfigError
from bertsmith.lineage.recurrent_entries import own_architectures
from bertsmith.lineage.source_target import SourceTarget, TokenRow
from bertsmith.lineage.t5 import T5
from bertsmith.lineage.t5_folder import list_weight_names, load_t5, save_t5
from bertsmith.model.bert import BertModel
from bertsmith.model.config import BertConfig
from bertsmith.model.family import Family, OwnFolder
from bertsmith.model.heads import ClassificationHead
from bertsmith.model.load_report import LoadReport
from bertsmith.model.model_output import ModelOutput
from bertsmith.model.shape_buckets import fill_up
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.training.objective import LossTerm

TEXT_TO_TEXT_HEADS = ("classify", "regress")
"""Heads of BERT in whose place a T5 writes the label, or the number, as text."""
TOKENS_AT_ONCE = 512
"""Number of tokens whose logits over the whole vocabulary are in memory at once."""


@dataclass(unsafe_hash=True)  # hash by value; fields are set only once
class T5ClassifierConfig(BertConfig):
    """The part of a T5's config that fine-tuning reads; `T5Config` is the whole config."""

    # Placeholders for two fields that `BertConfig` requires; `T5Config` has the true numbers.
    num_attention_heads: int = 1
    intermediate_size: int = 1
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 1_048_576
    """T5 has no position vectors, so there is no limit but memory."""
    type_vocab_size: int = 0
    pooling: Any = "none"
    eos_token_id: int = 1

    model_type: ClassVar[str] = "t5"
    # The fields that must be 1 or more.
    sizes: ClassVar[tuple[str, ...]] = ("vocab_size", "hidden_size", "num_hidden_layers")
    has_pooler: ClassVar[bool] = False
    has_position_embedding: ClassVar[bool] = False
    poolings: ClassVar[tuple[str, ...]] = ("none",)
    writes_labels: ClassVar[bool] = True


class TextToTextHead(ClassificationHead):
    """A head without weights, since the decoder writes the labels; it holds their number."""

    def __init__(self, config: T5ClassifierConfig, num_labels: int) -> None:
        nn.Module.__init__(self)  # not that of ClassificationHead, which builds a linear layer
        self.num_labels = num_labels
        self.dropout_prob = 0.0


class WordEmbedding(nn.Module):
    """Module whose only part, `word`, is the T5's embedding, as encoders name theirs."""

    word: nn.Embedding


class T5Classifier(BertModel):
    """A T5 that fine-tuning and prediction treat as an encoder with a head.

    Fine-tuning freezes parts of an encoder by the names `embeddings` and `layers`. So the embedding
    of the T5 and the layers of its encoder are also reached by these names.
    """

    def __init__(self, config: T5ClassifierConfig, t5: T5, heads: Mapping[str, nn.Module]) -> None:
        super().__init__(config, heads, pooler=False)
        self.embeddings.word = t5.word
        self.layers.extend(t5.encoder)
        self.t5 = t5

    def set_dropout(self, probability: float, attention: float | None = None) -> None:
        """Set all dropout to `probability`; a T5 has no other one for `attention` weights."""
        self.t5.set_dropout(probability)
        self.config = self.config.with_dropout(probability, probability)

    def forward(self, *args: Any, **options: Any) -> ModelOutput:
        raise ConfigError(
            "A T5 gives no logits of classes: it writes their names. Use the predictor of "
            "bertsmith.load, or the class T5ForConditionalGeneration of transformers."
        )

    def label_log_probs(self, batch: Batch, labels: Sequence[Sequence[int]]) -> Tensor:
        """Compute the log-probability of each label as the target, fp32 `[sequences, labels]`.

        Args:
            labels: the token ids of each label, with the end token.
        """
        t5 = self.t5
        # If `is_batch_invariant`, a text gets the same bytes whatever texts are computed with it.
        source = TokenRow(batch.input_ids, batch.lengths, self.is_batch_invariant)
        memory = t5.project_source(fill_up(t5.encode(source)))
        num_sequences = batch.num_sequences
        columns = []
        for label in labels:
            decoder_input = TokenRow.of([[t5.start_id, *label[:-1]]] * num_sequences)
            hidden = t5.decode_from(memory, source, decoder_input.to(self.device))
            target_ids = torch.tensor(label, device=self.device).repeat(num_sequences)
            losses = []
            for vectors, ids in zip(
                torch.split(hidden, TOKENS_AT_ONCE),
                torch.split(target_ids, TOKENS_AT_ONCE),
                strict=True,
            ):
                logits = self._compute_logits(vectors)
                losses.append(F.cross_entropy(logits, ids, reduction="none"))
            columns.append(-torch.cat(losses).view(num_sequences, len(label)).sum(1))
        return torch.stack(columns, dim=1)

    def _compute_logits(self, hidden: Tensor) -> Tensor:
        """Return fp32 logits [tokens, vocabulary], the same in any batch (`apply_to_rows`)."""
        return self.apply_to_rows(self.t5.compute_logits, hidden).float()

    def label_loss(self, batch: Batch, targets: Sequence[Sequence[int]]) -> LossTerm:
        """Compute the loss of writing a target for each sequence, summed over tokens, in nats.

        The tokens of a target count as correct if the model would choose every one of them.

        Args:
            targets: token ids for each sequence in the batch's order, with the end token.
        """
        t5 = self.t5
        labels = TokenRow.of(targets).to(self.device)
        decoder_input = TokenRow.of([[t5.start_id, *target[:-1]] for target in targets])
        source = TokenRow(batch.input_ids, batch.lengths)
        pairs = SourceTarget(
            source,
            target=decoder_input.to(self.device),
            labels=labels.input_ids,
            order=tuple(range(len(targets))),
            step_indices=batch.step_indices,
        )
        logits = t5.compute_logits(t5.decode(pairs)).float()
        loss = F.cross_entropy(logits, labels.input_ids, reduction="sum")
        is_right = torch.split(logits.argmax(-1) == labels.input_ids, list(labels.lengths))
        correct = torch.stack([target.all() * len(target) for target in is_right]).sum()
        return LossTerm(loss, correct, len(labels.input_ids))


def _load(
    directory: Path, config: T5ClassifierConfig, heads: Mapping[str, nn.Module]
) -> T5Classifier:
    model = T5Classifier(config, load_t5(directory), heads)
    # `load_t5` has checked that the folder has all weights and no others.
    model.load_report = LoadReport(list_weight_names(model.t5), missing=(), unused=())
    return model


def _save(
    model: T5Classifier, directory: Path, tokenizer: Tokenizer | None, entries: Mapping[str, Any]
) -> None:
    save_t5(model.t5, directory, tokenizer, entries)


KEYS: dict[str, str | None] = {
    "hidden_size": "d_model",
    "num_hidden_layers": "num_layers",
    "hidden_dropout_prob": "dropout_rate",
    "attention_probs_dropout_prob": "dropout_rate",
    "num_attention_heads": None,
    "intermediate_size": None,
    "hidden_act": None,
    "max_position_embeddings": None,
    "type_vocab_size": None,
    "initializer_range": None,
    "layer_norm_eps": None,
    "classifier_dropout": None,
    "pooling": None,
}
"""Maps a field of the config to its key in config.json; None if the field is not stored."""

FAMILY = Family(
    config=T5ClassifierConfig,
    # Name of a head → the class that builds it.
    heads=dict.fromkeys(TEXT_TO_TEXT_HEADS, TextToTextHead),
    names={},  # `own_folder` loads and saves the weights
    architectures={  # heads of a model → its class in transformers
        # These are also classes of heads that a T5 cannot have: `task_head` (config_file.py) looks
        # up a class for the head of each task.
        **own_architectures("T5"),
        **{frozenset({head}): "T5ForConditionalGeneration" for head in TEXT_TO_TEXT_HEADS},
    },
    tied={},  # stored tensor → the one that it equals
    # field → value that transformers assumes if config.json omits it
    absent={"vocab_size": 32128, "hidden_size": 512, "num_hidden_layers": 6},
    keys=KEYS,
    # Fields that config.json may also have by their own names.
    fields_by_both_names=frozenset({"hidden_size", "num_hidden_layers"}),
    build_embeddings=lambda config: WordEmbedding(),  # type: ignore[arg-type,return-value]
    build_layers=lambda config: [],
    own_folder=OwnFolder(_load, _save),
    dropout_keys={"classify": None},  # name of a head → key of its dropout; None: it has none
)
