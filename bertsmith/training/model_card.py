"""The model card of a folder: README.md in Hugging Face's format, made from its run.json.

A card names files without their folders, since cards are published. A README.md without `CARD_MARK`
was written by the user, and is not changed. A *system* is a kind of model other than BERT, such as
a GPT or an LSTM.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bertsmith._version import __version__
from bertsmith.data.text_files import IN_MEMORY
from bertsmith.metrics.names import format_score, score_name
from bertsmith.model.head_names import LINEAR_HEAD_FILE, MEMBERS
from bertsmith.model.hub import CARD_FILE, CARD_MARK, HUB_NAME, is_own_card
from bertsmith.system.counts import count_noun
from bertsmith.system.files import atomic_write
from bertsmith.system.json_text import parse_json
from bertsmith.system.nested_folder import MODULES_FILE
from bertsmith.system.paths import shell_path
from bertsmith.training.run_config import flatten

PIPELINES = {
    "ForMaskedLM": "fill-mask",
    "ForPreTraining": "fill-mask",
    "ForSequenceClassification": "text-classification",
    "ForTokenClassification": "token-classification",
    "ForQuestionAnswering": "question-answering",
    "ForMultipleChoice": "multiple-choice",
    "LMHeadModel": "text-generation",
    "RecurrentLanguageModel": "text-generation",
    "MarianMTModel": "translation",
    "T5ForConditionalGeneration": "text2text-generation",
}
"""Tasks of the hub, by the endings of transformers' class names."""
EXAMPLES = {
    "text-classification": '"A text."',
    "token-classification": '"A text."',
    "question-answering": '"A question?", "A passage with the answer."',
    "multiple-choice": '"A beginning.", ["An ending.", "Another."]',
}
"""Arguments of the example call in a card, by the task of the hub."""
OTHER_COMMANDS = {
    "text-generation": 'generate NAME "A text that"',
    "text2text-generation": 'translate NAME "A text."',
    "translation": 'translate NAME "A text."',
}
"""Example commands for models other than BERT (GPT, T5 and so on), by the task of the hub."""
ELMO_LINE = "`bertsmith evaluate NAME --minimal-pairs pairs.csv`"
"""Example command for an ELMo, since the hub has no task for language models of both directions."""
OPENED_BY_TRANSFORMERS = "transformers opens the folder, too."
AVERAGED = "bertsmith answers with the mean of the probabilities of all models in this folder."
AVERAGED_IN_TRANSFORMERS = "transformers opens one of them alone."
OURS_ALONE = {"lstm": "recurrent", "elmo": "elmo"}
"""The `model_type` of models that transformers lacks, by `config.system` in run.json."""
TASK_PURPOSES = {
    "classify": "to sort texts into classes",
    "regress": "to give texts a number",
    "tag": "to label words",
    "answer": "to find the answers to questions in passages",
    "choose": "to choose what fits a prompt",
    "translate": "to write one text from another",
    "embed": "to turn texts into vectors that are close for similar texts",
}
LAYERS = ("n_layer", "encoder_layers", "num_layers", "num_hidden_layers")
"""Keys that different kinds of models have for the number of layers; BERT's is the last."""
WIDTHS = ("n_embd", "d_model", "hidden_size")
"""Keys that different kinds of models have for the width of the vectors; BERT's is the last."""
SETTINGS = ("steps", "minutes", "batch_size", "max_length", "dropout", "seed", "precision",
            "pretraining.objective", "pretraining.pairs", "pretraining.masking",
            "pretraining.masking_rate", "pretraining.max_length", "optim.optimizer",
            "optim.learning_rate", "optim.weight_decay", "optim.warmup_fraction",
            "optim.schedule")  # fmt: skip
"""Entries of a run's `config` that a card shows."""
SHOWN_LABELS = 20
LICENSE = """\
bertsmith does not know the license. Before you publish the model, name one in the first lines of
this file; the licenses of the texts, and of the model that it began with, may limit the choice."""


def write_card(directory: Path, run: Mapping[str, Any], name: str = "") -> None:
    """Write the card of a model folder, unless the user wrote its README.md.

    `run` is the content of run.json. `name` is the folder's final name, if it is another now.

    Raises:
        InputError: it cannot be written.
    """
    path = directory / CARD_FILE
    if path.exists() and not is_own_card(directory):
        return
    with atomic_write(path, "w") as file:
        file.write(model_card(directory, run, name or directory.resolve().name))


def model_card(directory: Path, run: Mapping[str, Any], name: str) -> str:
    config = parse_json((directory / "config.json").read_text(encoding="utf-8"))
    pipeline = _pipeline(directory, config)
    sections = {
        "Use": _use(pipeline, name, config, has_linear_head=_has_linear_head(run)),
        "Scores": "\n".join(_scores(run)),
        "Data": "\n".join(_data(run)),
        "Settings": _table(("setting", "value"), _settings(run)),
        "Limits": LICENSE,
    }
    blocks = [_front_matter(pipeline, run, name), f"# {name}", _summary(run)]
    blocks += [f"## {title}\n\n{text}" for title, text in sections.items() if text]
    return "\n\n".join(blocks) + "\n"


def _front_matter(pipeline: str, run: Mapping[str, Any], name: str) -> str:
    """Return the YAML at the beginning of the card, which the hub reads."""
    scores = _evaluation(run) if "result" in run else {}
    is_sentence_encoder = pipeline == "sentence-similarity"
    lines = [CARD_MARK, "license: unknown"]
    library = "sentence-transformers" if is_sentence_encoder else "transformers"
    # Only configs of networks of LSTM or GRU cells have these entries.
    is_recurrent = not {"cell", "cell_size"}.isdisjoint(run["config"].get("model", {}))
    if _has_linear_head(run) or is_recurrent or run["config"].get("system") in OURS_ALONE:
        library = "bertsmith"
    lines.append(f"library_name: {library}")
    lines.append(f"pipeline_tag: {pipeline}")
    if (base := _base(run)) and HUB_NAME.fullmatch(base) and not Path(base).exists():
        lines.append(f"base_model: {base}")
    lines += ["tags:", "- bertsmith"]
    if scores:
        name_of_data = _name_of(run.get("settings", {}).get("eval")) or "held-out examples"
        data = json.dumps(name_of_data, ensure_ascii=False)
        lines += ["metrics:", *(f"- {score}" for score in scores), "model-index:"]
        lines += [f"- name: {json.dumps(name, ensure_ascii=False)}", "  results:", "  - task:"]
        lines += [f"      type: {pipeline}", "    dataset:", f"      name: {data}"]
        lines += [f"      type: {data}", "    metrics:"]
        lines += [
            f"    - type: {score}\n      value: {value:.6g}" for score, value in scores.items()
        ]
    return "\n".join(["---", *lines, "---"])


def _pipeline(directory: Path, config: Mapping[str, Any]) -> str:
    """Return the task of the folder's model by its name on the hub, such as "fill-mask"."""
    if (directory / MODULES_FILE).exists():
        return "sentence-similarity"
    if (directory / LINEAR_HEAD_FILE).exists():
        return "text-classification"
    # ELECTRA's class for pre-training ends as BERT's does, but cannot fill masks.
    name = next(iter(config.get("architectures") or ()), "").replace("ElectraForPreTraining", "")
    tags = (tag for end, tag in PIPELINES.items() if name.endswith(end))
    return next(tags, "feature-extraction")


def _base(run: Mapping[str, Any]) -> str:
    """Return the model that a run began with, as the user named it; empty if there is none."""
    settings = run.get("settings", {})
    records = run.get("compression") or [{}]  # one for each time that the model was made smaller
    # `cell` asks for a new LSTM or GRU; `model` then gives only the tokenizer.
    begins_at_random = settings.get("from_scratch") or settings.get("cell")
    named = records[-1].get("source") or settings.get("from") or settings.get("model")
    return named if isinstance(named, str) and not begins_at_random else ""


def _name_of(source: object) -> str:
    """Return the last component of a path, or a hub name as it is.

    The result is empty for a source without a name: None, and `IN_MEMORY` for rows in memory.
    """
    if not isinstance(source, str) or source in ("", ".", str(IN_MEMORY)):
        return ""
    is_of_hub = HUB_NAME.fullmatch(source) and not Path(source).exists()
    return source if is_of_hub else Path(source).resolve().name


def _summary(run: Mapping[str, Any]) -> str:
    """Return the first sentence of the card: the model's size and what it was made from."""
    shape = run["config"]["model"]
    layers, width = _read_size(shape, LAYERS), _read_size(shape, WIDTHS)
    size = f"A model of {count_noun(layers, 'layer')}, {width} wide"
    origin = _describe_origin(run)
    if teacher := run.get("distillation", {}).get("teacher"):
        origin += f", with the teacher `{_name_of(teacher)}`"
    return f"{size}, {origin}, by bertsmith {__version__}."


def _describe_origin(run: Mapping[str, Any]) -> str:
    """Say in the middle of a sentence what the model was made from, and for which purpose."""
    base = _name_of(_base(run))
    if "compression" in run:
        return f"made smaller from `{base}` ({run['compression'][-1].get('method', '')})"
    if "result" not in run:
        return f"pre-trained, from `{base}`" if base else "pre-trained from random weights"
    result = run["result"]
    purpose = TASK_PURPOSES.get(result["task"], "")
    examples = f"examples {result['target']}"  # such as "examples with 2 labels"
    head = run.get("settings", {}).get("head")
    if head == "contrastive":
        return (
            f"trained from `{base}` on pairs of {examples}, with a linear head that was fitted to "
            f"its vectors, {purpose}"
        )
    if _has_linear_head(run):
        vectors = "" if head == "counts" else f"the vectors of `{base}` and to "
        return (
            f"with a linear head that was fitted to {vectors}token counts, {purpose}, on {examples}"
        )
    start = f"`{base}`" if base else "random weights"
    return f"fine-tuned {purpose} on {examples}, from {start}"


def _read_size(shape: Mapping[str, Any], names: Sequence[str]) -> int:
    """Return the first of these entries that a model's config has.

    If the config has none of them, or the first one is null, it must have the last, BERT's own. If
    that is missing, too, `RunFacts` raises an error.
    """
    size = next((shape[name] for name in names if name in shape), None)
    return int(size or shape[names[-1]])


def _use(pipeline: str, name: str, config: Mapping[str, Any], *, has_linear_head: bool) -> str:
    """Return example code that loads the folder and uses the model.

    The example is a command for models other than BERT that write text, such as a GPT, and for an
    ELMo. For all others it is Python.
    """
    vectors = f'vectors = bertsmith.load("{name}").encode(["A text.", "Another."])'
    call = {
        "fill-mask": f'model = bertsmith.load_model("{name}")',
        "feature-extraction": vectors,
        "sentence-similarity": vectors,
    }.get(pipeline)
    model_type = config.get("model_type")
    if model_type == "elmo" and pipeline == "feature-extraction":
        return ELMO_LINE.replace("NAME", shell_path(name))
    if config.get("problem_type"):
        # Also for a T5 that was fine-tuned: for the hub it is a model that writes text.
        pipeline = "text-classification"
    is_ours_alone = model_type in OURS_ALONE.values()
    if pipeline in OTHER_COMMANDS:
        line = f"bertsmith {OTHER_COMMANDS[pipeline].replace('NAME', shell_path(name))}"
        note = "" if is_ours_alone else f"\n\n{OPENED_BY_TRANSFORMERS}"
        return f"```\n{line}\n```{note}"
    if call is None:
        example = EXAMPLES[pipeline]
        if pipeline == "text-classification" and config.get("bertsmith", {}).get("pairs"):
            example += ', "Another."'
        call = f'predict = bertsmith.load("{name}")\nprint(predict({example}).answer)'
    note = "" if is_ours_alone else OPENED_BY_TRANSFORMERS
    if config.get("bertsmith", {}).get(MEMBERS):
        note = AVERAGED if is_ours_alone else f"{AVERAGED}\n{AVERAGED_IN_TRANSFORMERS}"
    if has_linear_head:
        note = "transformers opens the encoder, without the head."
    return f"```python\nimport bertsmith\n\n{call}\n```\n\n{note}".rstrip()


def _has_linear_head(run: Mapping[str, Any]) -> bool:
    return run.get("settings", {}).get("head") in ("linear", "counts", "contrastive")


def _evaluation(run: Mapping[str, Any]) -> dict[str, float]:
    """Return the scores of a run's last evaluation by name.

    Whole numbers, such as counts of examples, are left out.
    """
    if "compression" in run:
        scores = run["compression"][-1]["after"]["scores"]
    elif "result" in run:
        scores = run["result"]["evaluation"]
    else:
        held_out = run.get("summary", {}).get("held_out", {})
        scores = {
            name.removeprefix("held_out_"): value
            for name, value in held_out.items()
            if name.startswith("held_out_")
        }
    return {name: value for name, value in scores.items() if isinstance(value, float)}


def _scores(run: Mapping[str, Any]) -> Iterator[str]:
    """Yield the section of scores: of a compression, a task or a pre-training."""
    scores = _evaluation(run)
    settings = run.get("settings", {})
    if "compression" in run:
        record = run["compression"][-1]
        before, after = record["before"], record["after"]
        rows = [
            ("parameters", *(f"{figures['parameters']['total']:,}" for figures in (before, after)))
        ]
        rows += [
            (name, format_score(name, before["scores"][name]), format_score(name, value))
            for name, value in scores.items()
        ]
        yield _table(("", "before", "after"), rows)
        return
    if not scores:
        return
    if "result" in run:
        evaluation = run["result"]["evaluation"]
        # The number of examples is the first count; its name depends on the task.
        counts = (
            value
            for name, value in evaluation.items()
            if name.startswith("num_") or name == "total"
        )
        count = next(counts, None)
        examples = "examples" if count is None else count_noun(count, "example")
        eval_name = _name_of(settings.get("eval"))
        source = f"of `{eval_name}`" if eval_name else "that were held out"
        if _has_linear_head(run) or "system" in run["config"]:
            yield f"On {examples} {source}.\n"
        else:
            yield f"On {examples} {source}. The best weights were chosen by the same examples, so"
            yield "the scores are slightly optimistic.\n"
    else:
        yield "On held-out text of the corpus, at the last evaluation.\n"
    yield _table(
        ("score", "value"),
        [(score_name(name), format_score(name, value)) for name, value in scores.items()],
    )
    if "repeats" in run:
        repeats = run["repeats"]
        metric = repeats["metric"]
        figure = repeats["figures"].get(metric)
        spread = (
            f": {format_score(metric, figure['mean'])} ± "
            f"{format_score(metric, figure['deviation'])} {score_name(metric)}"
            if figure
            else ""
        )
        yield f"\nThe best of {len(repeats['names'])} {repeats['kind']}s{spread}."
        if average := repeats.get("average"):
            linear = ", and of a linear head, with half of the weight"
            yield (
                "bertsmith answers with the mean of the probabilities of all "
                f"{len(repeats['names'])} models in this folder"
                f"{linear if 'linear_head' in repeats else ''}: "
                f"{format_score(metric, average[metric])} {score_name(metric)}. transformers opens "
                "the best one alone."
            )
    elif (entropy := run.get("data", {}).get("held_out_unigram_entropy")) is not None:
        loss = "loss" if "system" in run["config"] else "masked-LM loss"
        yield f"\nA model that knows token frequencies alone has a {loss} of {entropy:.4f}."


def _data(run: Mapping[str, Any]) -> Iterator[str]:
    """Yield the section of data: examples of a task, or the corpus of a pre-training."""
    settings = run.get("settings", {})
    result = run.get("result", {})
    if result:
        train_name = _name_of(settings.get("train"))
        source = f" of `{train_name}`" if train_name else ""
        yield f"- Training: {count_noun(result['num_train'], 'example')}{source}"
        if labels := result.get("labels"):
            shown = ", ".join(f"`{label}`" for label in labels[:SHOWN_LABELS])
            more = " …" if len(labels) > SHOWN_LABELS else ""
            yield f"- Labels: {shown}{more}"
        if overlap := result.get("num_overlap"):
            are = count_noun(overlap, "eval example is", "eval examples are")
            yield f"- {are} also among the training examples: the scores are too high"
    corpus = _name_of(settings.get("corpus"))
    if corpus and result:
        yield f"- Texts without labels: the corpus `{corpus}`"
    elif corpus:
        data = run["data"]
        yield (
            f"- Training: the corpus `{corpus}` of "
            f"{count_noun(data['train_documents'], 'document')} and {data['train_tokens']:,} tokens"
        )
        yield f"- The run read {run['summary']['real_tokens']:,} tokens"


def _settings(run: Mapping[str, Any]) -> list[tuple[str, str]]:
    config = dict(flatten(run["config"]))
    rows = []
    for name in SETTINGS:
        if (value := config.get(name)) is not None:
            shown = f"{value:.6g}" if isinstance(value, float) else str(value)
            rows.append((name.rpartition(".")[2].replace("_", " "), shown))
    return rows


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) if rows else ""
