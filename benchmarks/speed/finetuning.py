"""Fine-tuning: a published checkpoint on film reviews, against transformers' Trainer.

Both sides start from the same weights (6 layers, 384 wide, with the same new head) and take
sentences of SST-2 of 30 to 40 tokens in batches of 16. Ours is `bertsmith finetune classify` as it
is; the peer's sentences are tokenized before its clock starts.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.common import published_model
from benchmarks.speed.contest import Claim, Contender, Contest, call
from benchmarks.speed.plan import Plan
from benchmarks.speed.pretraining import Watch
from benchmarks.speed.protocol import Gate
from benchmarks.speed.trainer_peer import (
    DEFAULT,
    ENDLESS,
    LEARNING_RATE,
    TUNINGS,
    Collator,
    compute_difference,
    train,
    tune,
)

HERE = "benchmarks.speed.finetuning"
MAX_LENGTH = 128
BATCH_SIZE = 16
LENGTHS = range(30, 41)
HELD_OUT = 8
OURS = "bertsmith"


def checks(plan: Plan) -> Iterator[tuple[str, dict[str, float]]]:
    """Compute the difference of losses and gradients in fp32."""
    prepare(plan)
    yield "fine-tuning", call(f"{HERE}:parity", plan, folder=plan.work / "sst2")


def contests(plan: Plan) -> Iterator[Contest]:
    """Yield the contest."""
    prepare(plan)
    folder = plan.work / "sst2"
    ours = {"folder": folder, "threads": plan.threads}
    peers = [
        Contender(
            f"transformers, {tuning}",
            f"{HERE}:transformers",
            {"folder": folder, "tuning": tuning},
        )
        for tuning in TUNINGS
    ]
    yield Contest(
        title="Fine-tuning, sentences of 30 to 40 tokens",
        unit="tokens/s",
        contenders=[Contender(OURS, f"{HERE}:bertsmith", ours), *peers],
        claims=[
            Claim("fine-tuning", (OURS,), (peer.name,), is_shown=peer is peers[-1])
            for peer in peers
        ],
        notes=[
            f"all-MiniLM-L6-v2, batches of {BATCH_SIZE}, by default padded to {MAX_LENGTH} tokens."
        ],
    )


def prepare(plan: Plan) -> None:
    """Write the sentences and the folder to start from, if they are not there."""
    if not (plan.work / "sst2").exists():
        call(f"{HERE}:write", plan, source=plan.file("glue/SST-2/train.tsv"),
             folder=plan.work / "sst2")  # fmt: skip


def write(source: str, folder: str) -> None:
    """Write sentences of the right lengths, and a checkpoint with a head for two classes."""
    import torch

    from bertsmith.model.loading import load_model
    from bertsmith.model.saving import save_model
    from bertsmith.system.files import atomic_dir
    from bertsmith.tokenization.auto import load_tokenizer

    tokenizer = load_tokenizer(published_model())
    header, *lines = Path(source).read_text(encoding="utf-8").splitlines()
    chosen = [line for line in lines if len(tokenizer.encode(line.split("\t")[0]).ids) in LENGTHS]
    torch.manual_seed(0)
    model = load_model(published_model(), heads=("classify",), num_labels=2)
    model.id2label = {0: "0", 1: "1"}
    with atomic_dir(Path(folder)) as made:
        for name, part in (("dev", chosen[:HELD_OUT]), ("train", chosen[HELD_OUT:])):
            text = "\n".join([header, *part, ""])
            (made / f"{name}.tsv").write_text(text, encoding="utf-8")
        save_model(model, made / "start", tokenizer)


def bertsmith(gate: Gate, *, folder: str, threads: int) -> None:
    """Run `bertsmith finetune classify` as the command line does."""
    from bertsmith.system.process_options import configure_process

    configure_process()
    from bertsmith.finetuning.run import finetune
    from bertsmith.tasks.settings.classify import ClassifySettings
    from bertsmith.tasks.text_classification import Classify

    settings = ClassifySettings(
        model=Path(folder) / "start",
        train=Path(folder) / "train.tsv",
        eval=Path(folder) / "dev.tsv",
        out=Path(folder) / "tuned",
        max_length=MAX_LENGTH,
        steps=ENDLESS,
        batch_size=BATCH_SIZE,
        learning_rate=LEARNING_RATE,
        warmup_fraction=0.0,
        device="cpu",
        threads=threads,
        overwrite=True,
    )
    gate.wait()
    finetune(Classify, settings, callbacks=[Watch(gate)])


def transformers(gate: Gate, *, folder: str, tuning: str) -> None:
    """Run the Trainer with `BertForSequenceClassification`."""
    tune(tuning)
    from transformers import BertForSequenceClassification

    model = BertForSequenceClassification.from_pretrained(Path(folder) / "start")
    collate = Collator(BATCH_SIZE, MAX_LENGTH if tuning == DEFAULT else None)
    out = str(Path(folder) / "trainer")
    train(gate, model, peer_rows(folder), collate, tuning=tuning, out=out)


def peer_rows(folder: str) -> list[dict[str, Any]]:
    """Encode the sentences by transformers' tokenizer."""
    from transformers import AutoTokenizer

    lines = (Path(folder) / "train.tsv").read_text(encoding="utf-8").splitlines()[1:]
    texts, labels = zip(*(line.split("\t") for line in lines), strict=True)
    tokenizer = AutoTokenizer.from_pretrained(Path(folder) / "start")
    encoded = tokenizer(list(texts), truncation=True, max_length=MAX_LENGTH)
    columns = (encoded["input_ids"], encoded["token_type_ids"], labels)
    return [
        {"input_ids": ids, "token_type_ids": types, "labels": int(label)}
        for ids, types, label in zip(*columns, strict=True)
    ]


def parity(folder: str) -> dict[str, float]:
    """Compute the difference of losses and gradients in fp32."""
    import torch
    import torch.nn.functional as F
    from transformers import BertForSequenceClassification

    from bertsmith.data.batches import pack
    from bertsmith.model.loading import load_model
    from bertsmith.tasks.logits import sequence_logits

    ours = load_model(Path(folder) / "start").eval()
    theirs = BertForSequenceClassification.from_pretrained(Path(folder) / "start").eval()
    rows = peer_rows(folder)[:BATCH_SIZE]
    batch = pack([torch.tensor(row["input_ids"]).numpy() for row in rows])
    labels = torch.tensor([rows[place]["labels"] for place in batch.order])
    return compute_difference(
        ours,
        theirs,
        lambda: F.cross_entropy(sequence_logits(ours, batch, "classify"), labels),
        lambda: theirs(**Collator(BATCH_SIZE, MAX_LENGTH)(rows)).loss,
    )
