"""Admission control: all texts of a request are admitted, or none."""

import pytest

from bertsmith.serving.admission import AdmissionControl, fit_into_free_memory
from bertsmith.serving.messages import QueueState
from bertsmith.serving.problems import Problem


def refusal(admission, *needed):
    taken = admission.num_texts, admission.num_characters
    with pytest.raises(Problem) as caught:
        admission.admit(*needed)
    assert (admission.num_texts, admission.num_characters) == taken
    return caught.value


def test_texts_are_admitted_and_released():
    admission = AdmissionControl(4, 100, 10.0)
    admission.admit(4, 100)
    assert (admission.num_texts, admission.num_characters) == (4, 100)
    admission.release(4, 100)
    assert (admission.num_texts, admission.num_characters) == (0, 0)
    admission.admit(4, 0)


@pytest.mark.parametrize(
    "needed, part", [((2, 1), "3 texts, of at most 4"), ((1, 51), "50 character")]
)
def test_a_busy_server_asks_to_try_again(needed, part):
    admission = AdmissionControl(4, 100, 10.0)
    admission.admit(3, 50)
    problem = refusal(admission, *needed)
    assert (problem.status, problem.headers["Retry-After"]) == (429, "1")
    assert part in problem.message
    admission.admit(1, 50)
    assert refusal(admission, 1, 0).status == 429


@pytest.mark.parametrize("needed", [(5, 1), (1, 101)])
def test_what_never_fits_is_refused_for_good(needed):
    problem = refusal(AdmissionControl(4, 100, 10.0), *needed)
    assert problem.status == 413
    assert "Retry-After" not in problem.headers
    assert "at most 4 texts with 100 characters" in problem.message


def test_a_request_that_would_wait_too_long_is_refused_at_once():
    admission = AdmissionControl(1000, 1_000_000, max_seconds=2.0)
    admission.admit(1, 500)
    admission.waiting_time.update(
        QueueState(last_request_id=1, num_tokens=52, seconds_per_token=0.1)
    )
    problem = refusal(admission, 1, 1)
    assert (problem.status, problem.headers["Retry-After"]) == (429, "6")
    assert "about 5 seconds" in problem.message
    admission.waiting_time.update(
        QueueState(last_request_id=1, num_tokens=10, seconds_per_token=0.1)
    )
    admission.admit(1, 100_000)  # characters are no measure of time: long texts may be cut


def test_a_full_server_says_when_the_waiting_requests_have_had_their_turn():
    admission = AdmissionControl(4, 100, 10.0)
    admission.admit(4, 50)
    admission.waiting_time.update(
        QueueState(last_request_id=1, num_tokens=35, seconds_per_token=0.1)
    )
    assert refusal(admission, 1, 1).headers["Retry-After"] == "4"


def test_characters_to_hold_fit_into_the_free_memory():
    assert fit_into_free_memory(10) == 10
    assert fit_into_free_memory(2**60) < 2**60
