"""Clipped and noised updates: how far, how much noise, what it costs, and what is refused."""

import json
import math
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import optimize, stats

from chainfl.cli.app import run
from chainfl.codec.records import Layout, Tensor
from chainfl.errors import AppError, InputError, ToolMissingError
from chainfl.learning.privacy import (
    Privacy,
    epsilon,
    expect_bearable,
    parse_privacy,
    private_update,
    secure_normal,
    seeded_normal,
)

ROOT = Path(__file__).resolve().parents[2]
DP = "clip=1.0,noise=1.1,delta=1e-5"
SIZE = 200_000


def test_a_difference_beyond_the_bound_is_scaled_to_it_and_one_within_stays() -> None:
    head_D = np.linspace(-1, 1, 1000).astype(np.float32)
    nothing = lambda size: np.zeros(size)  # noqa: E731
    direction_D = np.ones(1000, np.float32)
    bound = Privacy(0.5, 1, 1e-5)

    far_D = private_update(head_D, head_D + direction_D, bound, nothing)
    near_D = private_update(head_D, head_D + 0.01 * direction_D, bound, nothing)
    same_D = private_update(head_D, head_D, bound, nothing)

    assert np.linalg.norm(far_D.astype(np.float64) - head_D) == pytest.approx(0.5, rel=1e-5)
    assert np.ptp(far_D - head_D) < 1e-6, "the direction stays"
    assert near_D == pytest.approx(head_D + 0.01, abs=1e-6)
    assert same_D.tolist() == head_D.tolist()


@pytest.mark.parametrize("normal", [seeded_normal(7), secure_normal(os.urandom)], ids=["seeded", "secure"])
def test_the_noise_is_gaussian_of_the_promised_deviation(
    normal: Callable[[int], np.ndarray[tuple[int], np.dtype[np.float64]]],
) -> None:
    head_D = np.zeros(SIZE, np.float32)

    noised_D = private_update(head_D, head_D, Privacy(0.5, 1.2, 1e-5), normal)

    assert stats.kstest(noised_D / 0.6, "norm").pvalue > 1e-6
    assert float(noised_D.std()) == pytest.approx(0.6, rel=0.02)
    assert abs(np.corrcoef(noised_D[1:], noised_D[:-1])[0, 1]) < 0.02


def test_secure_noise_is_another_each_time_and_finite_at_the_ends_of_the_source() -> None:
    normal = secure_normal(os.urandom)

    assert not np.array_equal(normal(8), normal(8))
    assert np.isfinite(secure_normal(bytes)(4)).all()
    assert np.isfinite(secure_normal(lambda size: b"\xff" * size)(4)).all()


def test_an_update_that_is_no_number_is_not_released() -> None:
    head_D = np.zeros(3, np.float32)
    with pytest.raises(AppError, match="no number"):
        private_update(head_D, np.array([0, np.nan, 1], np.float32), Privacy(1, 1, 1e-5), seeded_normal(0))


def exact_epsilon(noise: float, count: int, delta: float) -> float:
    """The Gaussian mechanism's own (Balle and Wang, 2018, theorem 8): so many updates are one with less noise."""
    mean = math.sqrt(count) / noise

    def beyond(eps: float) -> float:
        second = math.exp(eps + stats.norm.logcdf(-mean / 2 - eps / mean))
        return float(stats.norm.cdf(mean / 2 - eps / mean) - second - delta)

    return float(optimize.brentq(beyond, 0, 500))


@pytest.mark.parametrize(("noise", "count"), [(1.1, 1), (1.1, 10), (2.0, 5), (5.0, 20)])
def test_the_account_is_never_below_the_exact_epsilon_and_not_far_above(
    noise: float, count: int, require_extra: Callable[[str], None]
) -> None:
    require_extra("dp")
    exact = exact_epsilon(noise, count, 1e-5)

    told = epsilon([(noise, count)], 1e-5)

    assert exact <= told <= 1.15 * exact


def test_updates_add_up_whatever_their_noise_and_none_cost_nothing(
    require_extra: Callable[[str], None],
) -> None:
    require_extra("dp")

    assert epsilon([], 1e-5) == epsilon([(1.1, 0)], 1e-5) == 0
    assert epsilon([(1.1, 2), (1.1, 3)], 1e-5) == pytest.approx(epsilon([(1.1, 5)], 1e-5))
    assert epsilon([(1.1, 5), (3.0, 1)], 1e-5) > epsilon([(1.1, 5)], 1e-5)
    assert epsilon([(0.01, 1)], 1e-5) > 5000, "hardly any noise, and no warning"


@pytest.mark.parametrize(
    "text",
    ["", "clip=1", "clip=1,noise=0,delta=1e-5", "clip=nan,noise=1,delta=1e-5", "clip=1,noise=x,delta=1e-5",
     "clip=1,noise=1,delta=1", "clip=1,noise=1,delta=1e-5,more=1", "clip=inf,noise=1,delta=1e-5"],
)  # fmt: skip
def test_a_setting_that_makes_no_sense_is_refused_in_one_line(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError, match="--dp"):
        parse_privacy(text)

    assert run(["simulate", "--dp", text]) == 2
    assert capsys.readouterr().err.strip().startswith("error: --dp")


def test_running_variances_do_not_bear_noise_and_are_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["new", str(tmp_path / "table"), "--template", "tabular"]) == 0
    app = str(tmp_path / "table" / "app.py")
    few = ["--participants", "5", "--committee", "3", "--rounds", "1", "--dp", "clip=1,noise=1,delta=1e-5"]
    capsys.readouterr()

    assert run(["simulate", "--app", app, *few]) == 2
    assert capsys.readouterr().err.startswith("error: --dp: noise makes 2.running_var negative")

    expect_bearable(Layout((Tensor("2.running_mean", (3,)), Tensor("my_running_var", (3,)))))


def test_without_the_accountant_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "opacus.accountants", None)
    with pytest.raises(ToolMissingError, match=r"needs opacus.*\[dp\]"):
        epsilon([(1.0, 1)], 1e-5)


@pytest.mark.slow
def test_the_example_learns_under_noise_and_equal_runs_give_equal_roots(
    capsys: pytest.CaptureFixture[str], require_extra: Callable[[str], None]
) -> None:
    require_extra("dp")
    people = ("--participants", "24", "--committee", "3", "--rounds", "4", "--json")
    answers = []
    for more in (("--dp", DP), ("--dp", DP, "--faithful"), ("--dp", DP, "--seed", "1"), ()):
        assert run(["simulate", "--app", str(ROOT / "examples" / "private"), *people, *more]) == 0
        answers.append(json.loads(capsys.readouterr().out)["metrics"])
    roots = [[one["model_root"] for one in told["rounds"]] for told in answers]
    losses = [[one["loss"] for one in told["rounds"]] for told in answers]

    assert roots[0] == roots[1] != roots[2]
    assert roots[0] != roots[3]
    assert all(each[-1] < 12.75 / 4 for each in losses)
    assert losses[3][-1] < losses[0][-1], "noise costs something"
    assert answers[0]["privacy"]["epsilon_at_most"][0] == pytest.approx(4.24, abs=0.01)
