"""What a soak says of series that are known: leaks are found, noise and a first filling of caches are none."""

import random

import pytest

from pinnace_campaigns.soak.samples import Sample
from pinnace_campaigns.soak.slopes import slope
from pinnace_campaigns.soak.verdict import WEEK_PROMPTS, judge

QUIET = Sample(0.0, 0, 40_000, 30_000, 30_000, 11, 0, 5, 0, 0, 0, 0, 0, 0)


def series(leak_kib: float, *, count: int = 300, seed: int = 1) -> list[Sample]:
    chance = random.Random(seed)
    found = []
    for at in range(count):
        prompts = 24 * at
        used = int(30_000 + min(prompts, 1000) + leak_kib * prompts + chance.uniform(-300, 300))
        found.append(
            QUIET._replace(time_s=at, prompts=prompts, resident_kib=used, proportional_kib=used, private_kib=used)
        )
    return found


def faults(samples: list[Sample], long_outputs: int = 0) -> set[str]:
    return {row.what for row in judge(samples, long_outputs) if row.fault}


def test_the_slope_of_a_line_is_its_slope() -> None:
    assert (2.0, 2.0, 2.0) == slope([1, 2, 3, 4], [2, 4, 6, 8])


def test_one_point_that_is_far_off_does_not_move_a_slope() -> None:
    ys = [float(x) for x in range(50)]
    ys[20] = 1e9

    assert 1.0 == slope(range(50), ys).middle


def test_two_points_have_no_slope() -> None:
    with pytest.raises(ValueError, match="2 points"):
        slope([1, 2], [1, 2])


@pytest.mark.parametrize("seed", range(5))
def test_noise_and_a_first_filling_are_no_leak(seed: int) -> None:
    assert set() == faults(series(0.0, seed=seed))


@pytest.mark.parametrize("seed", range(5))
def test_two_kibibytes_a_prompt_are_a_leak(seed: int) -> None:
    found = faults(series(2.0, seed=seed))

    assert {"resident memory", "proportional memory", "private memory"} == found
    assert WEEK_PROMPTS * 2 > 8 * 1024


def test_a_short_run_is_not_multiplied_by_a_week() -> None:
    assert set() == faults(series(2.0, count=40))


@pytest.mark.parametrize(
    ("field", "what"),
    [("descriptors", "open files"), ("other_session_files", "leases and copies beside sessions")],
)
def test_what_is_lost_with_each_conversation_is_found(field: str, what: str) -> None:
    samples = [each._replace(**{field: 11 + at}) for at, each in enumerate(series(0.0))]

    assert {what} == faults(samples)


def test_the_lease_of_a_session_that_is_being_closed_is_no_fault() -> None:
    samples = series(0.0)
    samples[10] = samples[10]._replace(other_session_files=2)

    assert set() == faults(samples)


@pytest.mark.parametrize(
    ("field", "what"),
    [
        ("children", "child processes"),
        ("temporary", "temporary files but for long outputs"),
    ],
)
def test_one_that_was_left_once_is_found(field: str, what: str) -> None:
    samples = series(0.0)
    samples[10] = samples[10]._replace(**{field: 1})

    assert {what} == faults(samples)


def test_outputs_that_are_missing_and_a_log_that_grows_are_found() -> None:
    samples = [each._replace(stderr_bytes=1000 * at) for at, each in enumerate(series(0.0))]

    assert {"files with long outputs", "stderr"} == faults(samples, long_outputs=3)
