"""Which rule should choose word pieces: frequency, or gain in likelihood?

WordPiece as first described (Schuster & Nakajima 2012) merges the pair that raises the likelihood
of the text most; the libraries of today merge the most frequent pair. Each rule learns a vocabulary
of the same size from the same text; each vocabulary's corpus trains the same small BERT for the
same number of steps. Measured on held-out documents: fertility (pieces per word), and how many bits
per character the masked LM needs, which lets vocabularies with longer and shorter pieces be
compared.

    python benchmarks/vocabulary_rules.py --work runs/vocabulary-rules

Writes `benchmarks/results/vocabulary-rules.md`.
"""

import argparse
import math
import time
from pathlib import Path

import torch
from own_texts import DATA, HERE, bertsmith

RULES = ("frequency", "likelihood")


def main() -> None:
    """Measure both rules and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--text", type=Path, default=DATA / "enwiki" / "small.txt")
    parser.add_argument("--held-out", type=Path, default=DATA / "enwiki" / "valid.txt")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--vocab-size", type=int, default=8000)
    parser.add_argument("--steps", type=int, default=2500)
    parser.add_argument("--start-steps", type=int, default=1500)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    rows = [measure(args, rule, seed) for seed in args.seeds for rule in RULES]
    lines = [
        "# Word pieces by frequency or by gain in likelihood",
        "",
        f"`python benchmarks/vocabulary_rules.py --work DIR --steps {args.steps}`, "
        f"{time.strftime('%Y-%m-%d')}, torch {torch.__version__}. Text: {args.text.name}, "
        f"held out: {args.held_out.name} for fertility, 1 % of the documents for bits. "
        f"{args.vocab_size:,} pieces; {args.steps:,} steps of the quarter-hour recipe each, the "
        f"first {args.start_steps:,} of them with rows of 32 tokens.",
        "",
        "| rule | seed | pieces per word | held-out loss per piece (nats) | pieces per character | "
        "bits per character |",
        "|---|---|---|---|---|---|",
        *rows,
        "",
    ]
    target = HERE / "results" / "vocabulary-rules.md"
    target.parent.mkdir(exist_ok=True)
    target.write_text("\n".join(lines), encoding="utf-8")
    print("\n".join(lines))


def measure(args: argparse.Namespace, rule: str, seed: int) -> str:
    """One row: a vocabulary, its corpus, and a model trained on it."""
    tokenizer, corpus, model = (args.work / f"{rule}-{name}" for name in ("tok", "corpus", "model"))
    learnt = bertsmith("tokenizer", "train", args.text, "--vocab-size", args.vocab_size,
                       "--rule", rule, "--held-out", args.held_out, "--out", tokenizer)  # fmt: skip
    built = bertsmith("corpus", "build", args.text, "--tokenizer", tokenizer, "--out", corpus)
    trained = bertsmith("pretrain", "quarter-hour",
                        "--corpus", corpus, "--out", model, "--steps", args.steps,
                        "--start-steps", args.start_steps, "--start-length", 32,
                        "--seed", seed)  # fmt: skip
    held_out = built["splits"]["held_out"]  # type: ignore[index]
    pieces_per_character = held_out["tokens"] / held_out["characters"]
    loss = float(trained["held_out_mlm_loss"])  # type: ignore[arg-type]
    fertility = learnt["held_out"]["bertsmith"]["fertility"]  # type: ignore[index]
    bits = loss / math.log(2) * pieces_per_character
    return (
        f"| {rule} | {seed} | {fertility:.4f} | {loss:.3f} | {pieces_per_character:.4f} | "
        f"{bits:.4f} |"
    )


if __name__ == "__main__":
    main()
