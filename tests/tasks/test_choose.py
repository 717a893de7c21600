"""The contract of a task, for multiple choice: rows, losses, and what is chosen."""

import torch
from tiny_models import NUM_POSITIONS, OTHER, tiny_tokenizer

from bertsmith.data.multiple_choice import ChoiceExample
from bertsmith.data.windows import Windowing
from bertsmith.tasks.example_objective import collate
from bertsmith.tasks.multiple_choice import Choose, choice_logits, encode_choices


def encoded(examples, max_length=NUM_POSITIONS):
    return Choose().encode(tiny_tokenizer(), examples, max_length, labelled=True)


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
