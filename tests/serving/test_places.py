"""Places for texts: a request takes all that it needs, or none."""

import pytest

from bertsmith.serving.messages import Waiting
from bertsmith.serving.places import Places, characters_to_hold
from bertsmith.serving.problems import Problem


def refusal(places, *needed):
    taken = places.num_taken, places.num_characters
    with pytest.raises(Problem) as caught:
        places.take(*needed)
    assert (places.num_taken, places.num_characters) == taken
    return caught.value


def test_places_are_taken_and_given_back():
    places = Places(4, 100, 10.0)
    places.take(4, 100)
    assert (places.num_taken, places.num_characters) == (4, 100)
    places.give_back(4, 100)
    assert (places.num_taken, places.num_characters) == (0, 0)
    places.take(4, 0)


@pytest.mark.parametrize("needed, part", [((2, 1), "3 of its 4 places"), ((1, 51), "50 character")])
def test_a_busy_server_asks_to_try_again(needed, part):
    places = Places(4, 100, 10.0)
    places.take(3, 50)
    problem = refusal(places, *needed)
    assert (problem.status, problem.headers["Retry-After"]) == (429, "1")
    assert part in problem.message
    places.take(1, 50)
    assert refusal(places, 1, 0).status == 429


@pytest.mark.parametrize("needed", [(5, 1), (1, 101)])
def test_what_never_fits_is_refused_for_good(needed):
    problem = refusal(Places(4, 100, 10.0), *needed)
    assert problem.status == 413
    assert "Retry-After" not in problem.headers
    assert "at most 4 texts with 100 characters" in problem.message


def test_a_request_that_would_wait_too_long_is_refused_at_once():
    places = Places(1000, 1_000_000, max_seconds=2.0)
    places.take(1, 500)
    places.waiting_time.update(Waiting(last_number=1, num_tokens=52, seconds_per_token=0.1))
    problem = refusal(places, 1, 1)
    assert (problem.status, problem.headers["Retry-After"]) == (429, "6")
    assert "about 5 seconds" in problem.message
    places.waiting_time.update(Waiting(last_number=1, num_tokens=10, seconds_per_token=0.1))
    places.take(1, 100_000)  # characters are no measure of time: long texts may be cut


def test_a_full_server_says_when_the_waiting_requests_have_had_their_turn():
    places = Places(4, 100, 10.0)
    places.take(4, 50)
    places.waiting_time.update(Waiting(last_number=1, num_tokens=35, seconds_per_token=0.1))
    assert refusal(places, 1, 1).headers["Retry-After"] == "4"


def test_characters_to_hold_fit_into_the_free_memory():
    assert characters_to_hold(10) == 10
    assert characters_to_hold(2**60) < 2**60
