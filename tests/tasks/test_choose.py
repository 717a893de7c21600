"""The contract of a task, for multiple choice: rows, losses, and what is chosen."""

from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_models import NUM_POSITIONS, OTHER, loss_of, save_tiny, tiny_model, tiny_tokenizer

from bertsmith.commands.predict import typed_examples
from bertsmith.data.multiple_choice import ChoiceExample
from bertsmith.data.windows import Windowing
from bertsmith.errors import InputError
from bertsmith.tasks.auto import load
from bertsmith.tasks.example_objective import (
    FineTuning,
    HeldOutExamples,
    collate,
    training_examples,
)
from bertsmith.tasks.multiple_choice import Choose, choice_logits, encode_choices

PROMPTS = [
    ("the film was", ("good", "very dull .", "a story")),
    ("a story", ("awful", "lovely and fine")),
    ("very very", ("the", "a", "and", "film", "story")),
]


def questions(count, seed=0):
    """Prompts of a few words whose right choice is the one that says `good`."""
    rng = np.random.default_rng(seed)
    examples = []
    for row in range(1, count + 1):
        label = int(rng.integers(rng.integers(2, 5)))
        choices = ["a bad film"] * int(rng.integers(max(2, label + 1), 5))
        choices[label] = "a good film"
        prompt = " ".join(rng.choice(OTHER[:7], rng.integers(2, 9)))
        examples.append(ChoiceExample(prompt, tuple(choices), label, row))
    return examples


def encoded(examples, max_length=NUM_POSITIONS):
    return Choose().encode(tiny_tokenizer(), examples, max_length, labelled=True)


def objective(examples, **settings):
    task, path = Choose(), Path("a.tsv")
    data = training_examples(task, encoded(examples), path, examples)
    return FineTuning(task, data, HeldOutExamples(encoded(examples), path, examples), **settings)


def tokens(row):
    return tiny_tokenizer().decode(row.ids.tolist(), skip_special_tokens=False)


def test_labels_that_seem_to_count_from_one_are_told():
    later = [ChoiceExample("the film", ("good", "bad"), 1)] * 7
    (note,) = Choose().notes(later, encoded(later))
    assert "--first-label tells from where they count" in note
    for examples in (later[:6], [*later, ChoiceExample("the film", ("good", "bad"), 0)]):
        assert Choose().notes(examples, encoded(examples)) == []


def test_every_choice_is_a_row_beside_the_prompt():
    data = encoded([ChoiceExample("the film", ("good", "very bad"), 1), *questions(2)])
    assert data.starts[:2].tolist() == [0, 2]
    first, second = data.rows.ids[:2]
    ids = tiny_tokenizer().encode("the film", "good").ids
    assert first.tolist() == ids
    assert second.tolist() == tiny_tokenizer().encode("the film", "very bad").ids
    assert data.rows.type_ids[1].tolist() == [0, 0, 0, 0, 1, 1, 1]
    assert data.example_targets["labels"][0] == 1
    assert data.num_truncated == 0


def test_a_long_prompt_is_read_in_windows_the_same_for_all_choices():
    words = [OTHER[place % 7] for place in range(29)]
    example = ChoiceExample(" ".join(words), ("good", "very bad film"), 0)
    choices = encode_choices(tiny_tokenizer(), example, 17, Windowing())
    rows = [row for choice in choices for row in choice.rows]
    half = len(rows) // 2
    prompts = [row.ids[row.type_ids == 0][1:-1].tolist() for row in rows]
    assert prompts[:half] == prompts[half:]
    assert max(len(row.ids) for row in rows) == 17
    whole = tiny_tokenizer().encode_ids(" ".join(words))
    covered = [any(whole[i : i + 3] == window[j : j + 3] for window in prompts
                   for j in range(len(window) - 2)) for i in range(len(whole) - 2)]  # fmt: skip
    assert all(covered)
    assert {choice.num_cut for choice in choices} == {0}


def test_a_choice_is_cut_only_beyond_half_of_the_room_and_counted():
    example = ChoiceExample("the film", (" ".join(["good"] * 23), "bad"), 0)
    assert encoded([example], 17).rows.num_cut == (23 - 12, 0)
    long = ChoiceExample(" ".join(["film"] * 23), (" ".join(["good"] * 23), "bad"), 0)
    assert set(encoded([long], 17).rows.num_cut) == {23 - 7, 0}
    assert encoded([example, long], 17).num_truncated == 2
    nothing = ChoiceExample("\u200b", (" ".join(["good"] * 40), "bad"), 0)
    assert encoded([nothing], 17).rows.lengths == [16, 4]


def test_logits_are_means_over_windows_and_absent_choices_have_none():
    examples = [
        ChoiceExample("the film", ("good", "bad"), 0),
        ChoiceExample(" ".join(["very"] * 31), ("good", "bad", "fine"), 2),
    ]
    data = encoded(examples, 19)
    num_windows = (data.starts[2] - 2) // 3
    assert num_windows > 1
    batch = collate(data, [1, 0])
    numbers = torch.arange(len(data.rows), dtype=torch.float32)
    assert data.num_windows == [1, num_windows]
    assert data.num_windowed == 1
    # Each row's number in its example stands for its logit.
    logits = choice_logits(batch.targets["place"].float(), batch)
    expected = numbers[: 3 * num_windows].view(3, num_windows).mean(1)
    torch.testing.assert_close(logits[0], expected)
    assert logits[1].tolist() == [0.0, 1.0, -torch.inf]


def test_long_prompts_may_be_cut_instead():
    example = ChoiceExample(" ".join(["film"] * 29), ("good", "very bad film"), 0)
    choices = encode_choices(tiny_tokenizer(), example, 17, Windowing("cut"))
    assert [choice.num_cut for choice in choices] == [29 - 11, 29 - 11]
    assert [len(row.ids) for choice in choices for row in choice.rows] == [11 + 4, 17]


def test_too_many_windows_are_thinned_for_all_choices_alike():
    examples = [ChoiceExample(" ".join(["film", "story"] * 50), ("good", "bad", "fine"), 0)]
    data = encoded(examples, 17)
    few = data.thinned(17 * 7)
    assert (data.num_windows[0] > 2, few.num_windows) == (True, [2])
    assert few.row_targets["choice"].tolist() == [0, 0, 1, 1, 2, 2]
    firsts = [few.rows.ids[row][:13].tolist() for row in range(6)]
    assert firsts[:2] == firsts[2:4] == firsts[4:]
    assert few.num_truncated == 1


def test_evaluation_equals_the_loss_of_the_same_batch():
    model = tiny_model("choose")
    task = objective(questions(7), batch_size=7)
    (batch,) = task.micro_batches(1)
    with torch.inference_mode():
        term = loss_of(task.task, model, batch)
    figures = task.evaluate(model)
    assert figures["held_out_loss"] == pytest.approx(float(term.sum) / 7, rel=1e-5)
    assert figures["held_out_choose_accuracy"] == pytest.approx(float(term.correct) / 7)


def test_transformers_opens_the_folder_with_equal_logits(tmp_path):
    from transformers import AutoModelForMultipleChoice, AutoTokenizer

    folder = save_tiny(tmp_path / "m", "choose")
    theirs = AutoModelForMultipleChoice.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    chooser = load(folder, device="cpu", precision="fp32")
    for (prompt, choices), choice in zip(PROMPTS, chooser(PROMPTS), strict=True):
        pairs = tokenizer([prompt] * len(choices), list(choices), padding=True, return_tensors="pt")
        with torch.inference_mode():
            expected = theirs(**{name: value[None] for name, value in pairs.items()}).logits[0]
        logits = np.log(choice.probabilities)
        differences = expected.numpy() - expected.numpy()[0]
        np.testing.assert_allclose(logits - logits[0], differences, atol=1e-5)
        assert choice.number == int(expected.argmax())
        assert choice.text == choices[choice.number]
        assert choice.probability == max(choice.probabilities)


def test_a_folder_of_transformers_chooses_here(tmp_path):
    from transformers import BertConfig, BertForMultipleChoice

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=20,
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=36,
        max_position_embeddings=41,
        initializer_range=0.3,
    )
    theirs = BertForMultipleChoice(config).eval()
    theirs.save_pretrained(tmp_path)
    tiny_tokenizer().save(tmp_path)
    chooser = load(tmp_path, device="cpu", precision="fp32")
    prompt, choices = PROMPTS[0]
    encodings = [tiny_tokenizer().encode(prompt, choice) for choice in choices]
    with torch.inference_mode():
        expected = [
            float(
                theirs(
                    torch.tensor([[encoding.ids]]),
                    token_type_ids=torch.tensor([[encoding.type_ids]]),
                ).logits
            )
            for encoding in encodings
        ]
    probabilities = np.exp(expected) / np.exp(expected).sum()
    np.testing.assert_allclose(chooser(prompt, choices).probabilities, probabilities, atol=1e-5)


def test_typed_texts_and_too_few_choices(tmp_path):
    (example,) = typed_examples(Choose(), ["the film was", "good", "bad"])
    assert example == ChoiceExample("the film was", ("good", "bad"), row=1)
    for texts in (["a", "b"], ["a", "b", " "]):
        with pytest.raises(InputError, match=r"a text and its choices|is empty"):
            typed_examples(Choose(), texts)
    chooser = load(save_tiny(tmp_path, "choose"), device="cpu", precision="fp32")
    assert chooser([]) == []
