"""Build the objective and the initial model of a pre-training run.

An objective makes the batches of each step and computes their losses.
"""

from pkgutil import resolve_name

from bertsmith.data.corpus import Corpus
from bertsmith.model.bert import BertModel
from bertsmith.model.electra_pair import ElectraPair
from bertsmith.model.reinitialize import initialize_sinusoidal
from bertsmith.pretraining.config import PretrainConfig
from bertsmith.pretraining.counted_start import initialize_counted
from bertsmith.pretraining.objective import Pretraining
from bertsmith.pretraining.settings import PretrainingSettings
from bertsmith.system.torch_modes import drawing_from


def build_objective(config: PretrainConfig, train: Corpus | None = None) -> Pretraining:
    """Build the objective of a run, over both splits of its corpus: training and eval text.

    `train` is the training split if it is open already.

    Raises:
        CorpusError: the corpus is damaged, or lacks the requested pairs.
        ConfigError: the named word list or segmenter cannot be used.
    """
    return objective_over(
        train or Corpus.open(config.corpus),
        Corpus.open(config.corpus, "held_out"),
        config.pretraining,
        batch_size=config.batch_size,
        micro_batch_size=config.micro_batch_size,
        seed=config.seed,
        eval_rows=config.evaluations.rows,
    )


def objective_over(
    train: Corpus, held_out: Corpus, settings: PretrainingSettings, **sizes: int
) -> Pretraining:
    """Build the objective that the settings name, on these splits of a corpus.

    `sizes` are keyword arguments of `Pretraining`, such as `batch_size` and `eval_rows`.

    Raises:
        CorpusError: the corpus lacks the requested pairs.
        ConfigError: the named word list or segmenter cannot be used.
    """
    objective: type[Pretraining] = resolve_name(settings.objective_entry.implementation)
    return objective(train, held_out, settings, **sizes)


def build_model(config: PretrainConfig, objective: Pretraining) -> BertModel:
    """Build a new model, with random weights from the seed or as its initializers say.

    The model is fp32, on the CPU.

    Raises:
        ConfigError: word embeddings are to be counted in the corpus, and the counts of neighbouring
            tokens may need more memory than is free.
    """
    with drawing_from(config.seed):
        model = objective.new_model(config.model)
        if config.position_initializer == "sinusoidal":
            initialize_sinusoidal(model)
        if config.word_initializer == "counted":
            # In an ELECTRA the generator is the masked LM.
            masked_lm = model.generator if isinstance(model, ElectraPair) else model
            initialize_counted(masked_lm, objective.train.corpus)
    return model
