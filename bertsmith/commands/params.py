"""`bertsmith params`: count a model's parameters, by component."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, get_type_hints

from bertsmith.commands.output import print_json
from bertsmith.commands.settings.params import Settings, Sizes
from bertsmith.errors import ConfigError
from bertsmith.model.bert import BertModel
from bertsmith.model.config import PRESETS, BertConfig
from bertsmith.model.electra_pair import build_trained
from bertsmith.model.families import FAMILIES, family_named
from bertsmith.model.model_folder import read_folder
from bertsmith.model.parameter_counts import (
    IN_LAYERS,
    PARAMETER_FORMULA,
    RELEASED_VOCABULARY,
    count_parameters,
    evaluate_formula,
    is_head,
    list_beyond_formula,
    pretraining_model,
    sum_parameters,
)
from bertsmith.system.bounds import LARGEST
from bertsmith.system.counts import count_noun


def main(settings: Settings, line: Sequence[str]) -> None:
    """Count and print the parameters of a folder's model, or of one with the given sizes.

    `line`, the words of the command line, which every command gets, is not needed here.
    """
    sizes = {name: size for name, size in asdict(settings.sizes).items() if size is not None}
    model = _load_or_build(settings.model, sizes)
    facts = account(model)
    if settings.json:
        print_json(facts)
    else:
        print(describe_counts(facts, _notes(model)))


def account(model: BertModel) -> dict[str, Any]:
    """Return a model's config, parameter counts and size in bytes, as plain JSON values."""
    counts = count_parameters(model)
    num_parameters = sum_parameters(counts)
    against_formula: dict[str, Any] = {}
    # The formula is for layers with attention; static vectors have no layers.
    if model.config.num_layers and not model.config.is_recurrent:
        against_formula["formula"] = evaluate_formula(model.config)
        against_formula["beyond_formula"] = list_beyond_formula(counts, model.config)
    return {
        "config": asdict(model.config),
        "max_length": model.config.max_length,
        "components": {  # such as "attention" and "word embedding"
            name: {"parameters": component.total, **asdict(component)}
            for name, component in counts.items()
        },
        "encoder": sum_parameters(counts, heads=False),
        "parameters": num_parameters,
        **against_formula,
        "bytes": {"fp32": 4 * num_parameters, "bf16": 2 * num_parameters},
    }


def describe_counts(facts: Mapping[str, Any], notes: Sequence[str]) -> str:
    """Format the result of `account` as a table, with notes below."""
    components = facts["components"]
    rows = [("component", "one layer", "parameters")]
    rows += [_row(name, component) for name, component in components.items() if not is_head(name)]
    per_layer = sum(component["per_layer"] for component in components.values())
    encoder = "encoder, with pooler" if "pooler" in components else "encoder"
    rows.append((encoder, f"{per_layer:,}", f"{facts['encoder']:,}"))
    rows += [_row(name, component) for name, component in components.items() if is_head(name)]
    if facts["parameters"] != facts["encoder"]:
        rows.append(("with heads", "", f"{facts['parameters']:,}"))
    name_width = max(len(name) for name, _, _ in rows)
    lines = [
        _describe_shape(facts),
        "",
        *(f"{name:<{name_width}}  {layer:>10}  {count:>12}" for name, layer, count in rows),
        "",
    ]
    if "formula" in facts:
        lines += [*_against_formula(facts, encoder), ""]
    lines += [
        f"as a file: {_megabytes(facts['bytes']['fp32'])} in fp32, "
        f"{_megabytes(facts['bytes']['bf16'])} in bf16",
        *notes,
    ]
    return "\n".join(lines)


def _describe_shape(facts: Mapping[str, Any]) -> str:
    """List the sizes of a model. Without attention it has no heads and no limit on positions."""
    config = facts["config"]
    has_attention = "formula" in facts
    sizes = [
        count_noun(config["num_hidden_layers"], "layer"),
        f"{config['hidden_size']:,} wide",
    ]
    if has_attention:
        sizes += [
            count_noun(config["num_attention_heads"], "head"),
            f"{config['intermediate_size']:,} inside the feed-forward",
        ]
    sizes.append(f"{config['vocab_size']:,} tokens")
    if has_attention:
        # RoBERTa stores two more positions, which no token has.
        sizes.append(f"{facts['max_length']:,} positions")
    return ", ".join(sizes)


def _row(name: str, component: Mapping[str, int]) -> tuple[str, str, str]:
    return (
        name,
        f"{component['per_layer']:,}" if name in IN_LAYERS else "",
        f"{component['parameters']:,}",
    )


def _against_formula(facts: Mapping[str, Any], encoder: str) -> list[str]:
    """Format the differences between the usual formula and the exact count, line by line.

    `facts` is the result of `account`, `encoder` the name of the last line.
    """
    rows = [(f"{PARAMETER_FORMULA}, the usual formula", f"{facts['formula']:,}")]
    rows += [(f"  {name}", f"{count:+,}") for name, count in facts["beyond_formula"].items()]
    rows.append((encoder, f"{facts['encoder']:,}"))
    name_width = max(len(name) for name, _ in rows)
    return [f"{name:<{name_width}}  {count:>12}" for name, count in rows]


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB" if count < 1e8 else f"{count / 1e6:,.0f} MB"


def _load_or_build(name: str | None, sizes: Mapping[str, Any]) -> BertModel:
    """Load a folder's model, or build one on torch's meta device, where weights take no memory.

    `name` is a folder or a preset, such as "mini"; `sizes` are those that the user gives.
    """
    if name is not None and name not in PRESETS:
        return _load(name, sizes)
    missing = [name for name in ("num_hidden_layers", "hidden_size") if name not in sizes]
    if name is None and missing:
        raise ConfigError(
            f"Name a preset ({', '.join(PRESETS)}) or a model's folder, or give --layers and "
            f"--hidden; {_flag(missing[0])} is missing."
        )
    return pretraining_model(_config(name, sizes))


def _load(name: str, sizes: Mapping[str, Any]) -> BertModel:
    """Load a folder's model.

    Raises:
        ConfigError: there is no such folder, or sizes are given, which cannot change a folder.
    """
    if Path(name).name == name and not Path(name).exists():
        raise ConfigError(
            f"params: found '{name}', which is neither a preset nor a folder here. The "
            f"presets are {', '.join(PRESETS)}; or name a model's folder."
        )
    if sizes:
        flag = _flag(next(iter(sizes)))
        raise ConfigError(
            f"{flag} cannot change the folder {name}, which has its own sizes. Leave {flag} "
            f"out, or name a preset: {', '.join(PRESETS)}."
        )
    return build_trained(read_folder(name))  # an ELECTRA with its generator, if it is there


def _flag(name: str) -> str:
    """Return the flag of a field of `Sizes`, which may have a shorter name than the field."""
    metadata = getattr(get_type_hints(Sizes, include_extras=True)[name], "__metadata__", ())
    flag = metadata[0].name if metadata else name.replace("_", "-")
    return f"--{flag}"


def _config(preset: str | None, sizes: Mapping[str, Any]) -> BertConfig:
    """Build a config from a preset and sizes; other sizes follow the family's proportions."""
    requested = dict(sizes)
    family = family_named(requested.pop("family", BertConfig.model_type)).config
    _check_known(family, requested)
    for name in requested.keys() & LARGEST.keys():
        if not 1 <= requested[name] <= LARGEST[name]:
            raise ConfigError(
                f"{_flag(name)}: found {requested[name]}; allowed is 1 to {LARGEST[name]:,}."
            )
    # `released_values` are those that all released models of the family have in place of our
    # defaults, such as one segment type of RoBERTa. `preset_sizes` include them.
    defaults = family.preset_sizes(preset) if preset else family.released_values
    values: dict[str, Any] = {**defaults, **requested}
    if not preset or "hidden_size" in requested:
        # The number of heads and the feed-forward width follow the width, not the preset.
        values |= {**family.proportions(values["hidden_size"]), **requested}
    if requested.get("shared", "all") != "all":
        # An ALBERT whose layers do not share all parts has a group of weights for each layer.
        values["num_hidden_groups"] = values["num_hidden_layers"]
    config = family(**{"vocab_size": RELEASED_VOCABULARY, **values})
    length = requested.get("max_position_embeddings", config.max_position_embeddings)
    # `length` is the longest text, 512 tokens by default. RoBERTa's first token has position 2, so
    # its table of positions needs two entries more, 514.
    return replace(config, max_position_embeddings=length + config.first_position)


def _check_known(family: type[BertConfig], requested: Mapping[str, Any]) -> None:
    """Check that models of a family have the sizes that the user gives.

    Raises:
        ConfigError: they lack one of these sizes.
    """
    for name in requested:
        if name not in family.__dataclass_fields__:
            others = [
                other.name
                for other in FAMILIES.values()
                if name in other.config.__dataclass_fields__
            ]
            raise ConfigError(
                f"{_flag(name)}: found {requested[name]!r} for the family {family.model_type}, "
                f"which has none. Leave it out, or give --family {' or '.join(others)}."
            )


def _notes(model: BertModel) -> list[str]:
    """Describe the weights that the folder lacks or that the model does not use."""
    report = model.load_report
    return [f"the folder: {report}"] if report and (report.missing or report.unused) else []
