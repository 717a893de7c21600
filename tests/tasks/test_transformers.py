"""Folders of transformers' task models give the same numbers here, and theirs for our folders."""

import numpy as np
import pytest
import torch
import transformers
from tiny_models import loss_of, save_tiny, tiny_tokenizer

from bertsmith.data.squad import GoldAnswer, Question
from bertsmith.tasks.auto import load
from bertsmith.tasks.example_objective import collate
from bertsmith.tasks.question_answering import padded_logits

NAMES = ("B-LOC", "B-PER", "O")
PROMPT = ("the film was", ("good", "very dull .", "a story"))
SETTINGS = {
    "vocab_size": 20, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 36, "max_position_embeddings": 41, "initializer_range": 0.3,
}  # fmt: skip
TEXTS = ["a good film", "the story was very dull and the film awful .", "lovely", "bad films"]
LABELS = {"id2label": dict(enumerate(NAMES)), "label2id": {n: i for i, n in enumerate(NAMES)}}
CLASSIFIER, MULTI = "SequenceClassification", {"problem_type": "multi_label_classification"}
KINDS = {
    "classify": (CLASSIFIER, LABELS, lambda logits: logits.softmax(-1)[0]),
    "multi_label": (CLASSIFIER, LABELS | MULTI, lambda logits: logits.sigmoid()[0]),
    "regress": (
        CLASSIFIER,
        {"num_labels": 1, "problem_type": "regression"},
        lambda logits: logits[0],
    ),
    "tag": ("TokenClassification", LABELS, lambda logits: logits.softmax(-1)[0, 1:-1].flatten()),
}
"""For each head the class of transformers, its settings, and what its logits say."""


def numbers(found):
    if hasattr(found, "value"):
        return [found.value]
    likely = found.probabilities
    return list(likely.values()) if isinstance(likely, dict) else likely.flatten().tolist()


def folder_of(path, name, **settings):
    torch.manual_seed(0)
    config = transformers.BertConfig(**SETTINGS, **settings)
    model = getattr(transformers, f"BertFor{name}")(config).eval()
    model.save_pretrained(path)
    tiny_tokenizer().save(path)
    return model, load(path, device="cpu", precision="fp32")


@pytest.mark.parametrize("precision, tolerance", [("fp32", 1e-5), ("bf16", 0.05)])
@pytest.mark.parametrize("head", KINDS)
def test_predictions_are_those_of_transformers(tmp_path, head, precision, tolerance):
    name, settings, decode = KINDS[head]
    if precision == "fp32":
        theirs, ours = folder_of(tmp_path, name, **settings)
    else:
        save_tiny(tmp_path, head, labels=() if head == "regress" else NAMES)
        theirs = getattr(transformers, f"AutoModelFor{name}").from_pretrained(tmp_path)
        ours = load(tmp_path, device="cpu", precision=precision)
    if head != "regress":
        assert ours.definition.labels == NAMES == tuple(theirs.config.id2label.values())
    for text in TEXTS[:3] if head == "tag" else TEXTS:  # "films" has two pieces
        ids = torch.tensor([tiny_tokenizer().encode(text).ids])
        with torch.inference_mode():
            expected = decode(theirs(ids).logits).tolist()
        assert numbers(ours(text)) == pytest.approx(expected, abs=tolerance)


def test_words_of_several_pieces_are_those_of_the_pipeline_that_reads_first_tokens(tmp_path):
    theirs, ours = folder_of(tmp_path, "TokenClassification", **LABELS)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    pipeline = transformers.pipeline(
        "token-classification", theirs, tokenizer=tokenizer, aggregation_strategy="first"
    )
    pipeline.ignore_labels = []
    text = "bad films and the storys"
    labels = ours(text).labels
    # A group may have several words.
    found = [group["entity_group"] for group in pipeline(text) for _ in group["word"].split()]
    assert found == [label.removeprefix("B-") for label in labels]


def test_choices_are_those_of_transformers(tmp_path):
    theirs, ours = folder_of(tmp_path, "MultipleChoice")
    rows = [tiny_tokenizer().encode(PROMPT[0], choice) for choice in PROMPT[1]]
    with torch.inference_mode():
        expected = [
            theirs(torch.tensor([[row.ids]]), token_type_ids=torch.tensor([[row.type_ids]])).logits
            for row in rows
        ]
    found = ours(*PROMPT)
    probabilities = torch.tensor(expected).softmax(-1).numpy()
    np.testing.assert_allclose(found.probabilities, probabilities, atol=1e-5)
    assert (found.number, found.text) == (probabilities.argmax(), PROMPT[1][probabilities.argmax()])
    assert found.probability == max(found.probabilities)


def test_answers_have_the_logits_and_the_loss_of_transformers(tmp_path):
    theirs, ours = folder_of(tmp_path, "QuestionAnswering")
    long = " ".join(["the film was a story and"] * 20) + " good film"
    questions = [
        Question("q", "the film ?", text, (GoldAnswer(right, text.index(right)),))
        for text, right in ((long, "good film"), ("a dull film", "dull"))
    ]
    encoded = ours.definition.encode(tiny_tokenizer(), questions, 23, labelled=True)
    batch = collate(encoded.by_row(), range(len(encoded.rows)))
    order = list(batch.order)
    padded, types = (
        torch.nn.utils.rnn.pad_sequence(ids.split(batch.lengths), True)
        for ids in (batch.input_ids, batch.token_type_ids)
    )
    is_token = torch.arange(max(batch.lengths)) < torch.tensor(batch.lengths)[:, None]
    with torch.inference_mode():
        expected = theirs(padded, token_type_ids=types, attention_mask=is_token.long())
        found = padded_logits(ours.definition.outputs(ours.loaded.model, batch), batch)
    # Their loss is over padding too, ours is not: equal where it weighs nothing.
    losses = []
    for place, side in enumerate(("start", "end")):
        logits = getattr(expected, f"{side}_logits").masked_fill(~is_token, -torch.inf)
        torch.testing.assert_close(found[..., place], logits)
        right = batch.targets[f"{side}_positions"][order]
        losses.append(torch.nn.functional.cross_entropy(logits, right))
    term = loss_of(ours.definition, ours.loaded.model, batch)
    torch.testing.assert_close(term.sum / term.count, sum(losses) / 2)
    rows = np.diff(encoded.starts)
    predictions = ours.definition.predict(ours.loaded.model, encoded, questions)
    total = sum(p.loss * count for p, count in zip(predictions, rows, strict=True))
    assert total == pytest.approx(term.sum.item(), rel=1e-5)
