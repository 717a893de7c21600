"""Run the same small jobs with two checkouts and compare all that they write, bit for bit.

    python tools/oracle.py OLD NEW [--work DIR] [--only NAME …]

OLD and NEW are checkouts of this repository; both use this interpreter's packages. Everything runs
in fp32 on texts made here. Weights and other tensors are compared bit for bit, corpora and
vocabularies byte for byte, JSON by its values without what a clock, a machine or a path decides.
Both are given the same command lines, so OLD must know today's; a key that was renamed is told
twice, as gone and as new.
"""

import argparse
import hashlib
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from safetensors import safe_open

SECONDS = 600
TRAINING = "--precision fp32 --threads 2"
ROWS = "--batch-size 8 --max-length 32 --eval-rows 16"
PLAIN = "--precision fp32"
VOLATILE = re.compile(
    r"seconds|time|_at$|per_second|wait|path|folder|machine|computing|command|version|^out$|"
    r"sha256|SHA256SUMS|minutes|^settings$|threads|elapsed|bytes|speed|memory"
)
IGNORED = (".png", ".svg", ".html", ".lock", "README.md", "SHA256SUMS")


PRETRAIN = f"pretrain --corpus corpus {TRAINING} {ROWS} --steps 6"
TASKS = {
    "classify": "csv",
    "regress": "csv",
    "tag": "conll",
    "answer": "json",
    "choose": "jsonl",
    "embed": "csv",
}
NO_FILES = ("embed",)  # has vectors in place of answers
CLASSIFY = f"--train classify.csv --eval classify-eval.csv --steps 4 {TRAINING}"


def jobs() -> Iterator[tuple[str, str]]:
    """Yield names and command lines in their order: later ones read what earlier ones wrote."""
    learn = "tokenizer train text.txt --no-compare"
    yield "wordpiece", f"{learn} --vocab-size 300 --out wordpiece"
    yield "bpe", f"{learn} --kind byte-bpe --vocab-size 400 --out bpe"
    yield "corpus", "corpus build text.txt --tokenizer wordpiece --out corpus --held-out 0.1"
    yield "inspect", "corpus inspect corpus --json"
    yield "bert", f"{PRETRAIN} --out bert"
    yield "albert", f"{PRETRAIN} --family albert --out albert"
    yield "electra", f"{PRETRAIN} --family electra --out electra"
    yield "words", f"{PRETRAIN} --masking word --pairs none --rows across --out words"
    yield "span", f"{PRETRAIN} --masking span --pairs sentence_order --out span"
    waves = "--start-steps 3 --position-initializer sinusoidal"
    yield "short", f"{PRETRAIN} {waves} --out short"
    yield "going-on", f"{PRETRAIN} --from bert --out going-on"
    rows = f"--corpus corpus {TRAINING} {ROWS} --steps 4"
    yield "distil", f"distill pretraining --teacher bert --num-layers 1 {rows} --out distil"
    for task, ending in TASKS.items():
        data = f"--train {task}.{ending} --eval {task}-eval.{ending}"
        steps = f"--batch-size 8 --steps 6 {TRAINING}"
        yield task, f"finetune {task} --model bert {data} {steps} --out {task}-model"
        file = f"{task}-eval.{ending}"
        yield f"evaluate-{task}", f"evaluate {task}-model --data {file} {PLAIN} --json"
        if task not in NO_FILES:
            out = f"--out {task}-predictions.jsonl"
            yield f"predict-{task}", f"predict {task}-model --file {file} {PLAIN} {out}"
    yield "seeds", f"finetune classify --model bert --seeds 2 {CLASSIFY} --out seeds"
    yield "student", f"finetune classify --teacher classify-model {CLASSIFY} --out student"
    yield "vectors", f"embed bert classify-eval.csv {PLAIN} --out vectors.npy"
    yield "layers", "compress bert --num-layers 1 --out one-layer"
    yield "pieces", "compress bert --vocabulary text.txt --out fewer-pieces"
    yield "params", "params mini --json"
    yield "fill", f'fill bert "[MASK] is here ." {PLAIN} --json'
    yield "score", "score classify-eval.csv classify-predictions.jsonl --json"


def write_data(folder: Path) -> None:
    """Write a text and examples for every task, the same at each call."""
    rng = random.Random(7)
    syllables = ["ba", "ce", "di", "fo", "gu", "ha", "ke", "li", "mo", "nu"]
    words = [first + second for first in syllables for second in syllables]
    good, bad = words[:10], words[10:20]

    def sentence(length: int) -> str:
        return " ".join(rng.choices(words, k=length))

    documents = [
        " ".join(f"{sentence(rng.randint(4, 12)).capitalize()}." for _ in range(rng.randint(2, 12)))
        for _ in range(150)
    ]
    (folder / "text.txt").write_text("\n\n".join(documents))
    for part, count in (("", 60), ("-eval", 30)):
        rows: dict[str, list[str]] = {task: [] for task in TASKS}
        rows["classify"].append("text,label")
        rows["regress"].append("text,label")
        rows["embed"].append("sentence1,sentence2,score")
        articles = []
        for number in range(count):
            text = sentence(rng.randint(3, 20)).split()
            kind = rng.randrange(2)
            text.insert(rng.randint(0, len(text)), word := rng.choice((bad, good)[kind]))
            rows["classify"].append(f"{' '.join(text)},{('no', 'yes')[kind]}")
            rows["regress"].append(f"{' '.join(text)},{sum(w in good for w in text) / 2 + kind}")
            rows["embed"].append(f"{' '.join(text)},{word} {sentence(4)},{kind * 4}")
            tags = [f"{w} {'B-PER' if w in good else 'B-LOC' if w in bad else 'O'}" for w in text]
            rows["tag"].append("\n".join(tags) + "\n")
            choices = [sentence(3), f"{word} {sentence(2)}"]
            record = {"prompt": " ".join(text), "choices": choices, "label": 1}
            rows["choose"].append(json.dumps(record))
            context = " ".join(text)
            answer = {"text": word, "answer_start": context.index(word)}
            asked = {"id": f"q{number}", "question": f"{sentence(2)}?", "answers": [answer]}
            articles.append({"paragraphs": [{"context": context, "qas": [asked]}]})
        rows["answer"] = [json.dumps({"version": "1.1", "data": articles})]
        for task, ending in TASKS.items():
            (folder / f"{task}{part}.{ending}").write_text("\n".join(rows[task]) + "\n")


def run(checkout: Path, line: str, work: Path, home: Path) -> tuple[int, str, str]:
    """Run one command of a checkout; return exit code, standard output and errors."""
    words = re.findall(r'"([^"]*)"|(\S+)', line)
    environment = os.environ | {
        "PYTHONPATH": str(checkout),
        "XDG_CACHE_HOME": str(home),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        [sys.executable, "-m", "bertsmith", *(quoted or word for quoted, word in words)],
        cwd=work,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def plain(value: Any) -> Any:
    """Return JSON without what a clock, a machine or a path decides."""
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items() if not VOLATILE.search(name)}
    return [plain(inner) for inner in value] if isinstance(value, list) else value


def digest(path: Path) -> Any:
    """Return what two files must agree in."""
    if path.suffix == ".safetensors":
        with safe_open(path, framework="np") as file:
            return {
                name: hashlib.sha256(file.get_tensor(name).tobytes()).hexdigest()
                for name in sorted(file.keys())
            }
    if path.suffix == ".json":
        return plain(json.loads(path.read_text()))
    if path.suffix == ".jsonl":
        return [plain(json.loads(line)) for line in path.read_text().splitlines()]
    return hashlib.sha256(path.read_bytes()).hexdigest()


def written(work: Path) -> dict[str, Any]:
    """Return the digests of all files below a folder."""
    return {
        path.relative_to(work).as_posix(): digest(path)
        for path in sorted(work.rglob("*"))
        if path.is_file() and not path.name.endswith(IGNORED) and "tfevents" not in path.name
    }


def differences(old: Any, new: Any, place: str) -> Iterator[str]:
    """Yield the places at which two values differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted({*old, *new}):
            yield from differences(old.get(name), new.get(name), f"{place} {name}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for at, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from differences(one, other, f"{place} [{at}]")
    elif old != new:
        yield f"{place}: {str(old)[:80]} → {str(new)[:80]}"


def main() -> int:
    """Run all jobs with both checkouts and print where they differ."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--work", type=Path, help="keep what is written in this folder")
    parser.add_argument("--only", nargs="*", help="names of jobs; what they need must be there")
    given = parser.parse_args()
    work = given.work or Path(tempfile.mkdtemp(prefix="oracle-"))
    sides = {"old": given.old.resolve(), "new": given.new.resolve()}
    for side in sides:
        (work / side).mkdir(parents=True, exist_ok=True)
        write_data(work / side)
    told: set[str] = set()
    failed = 0
    for name, line in jobs():
        if given.only and name not in given.only:
            continue
        printed, errors = {}, []
        for side, checkout in sides.items():
            code, out, err = run(checkout, line, work / side, work / "home")
            printed[side] = plain(json.loads(out)) if out.startswith("{") else None
            if code:
                errors.append(f"{side} ended with {code}: {err.strip()[-300:]}")
        files = differences(written(work / "old"), written(work / "new"), "file")
        new = [text for text in files if text not in told]
        told.update(new)
        found = [*errors, *differences(printed["old"], printed["new"], "printed"), *new]
        failed += bool(found)
        print(f"{name}: {'same' if not found else f'{len(found)} differences'}", flush=True)
        print(*(f"    {text}" for text in found[:5]), sep="\n", end="\n" if found else "")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
