"""Named parameters: round trips, log scales, equal shares, and what is refused."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfpne.tuning.space import LARGEST_INT, LARGEST_LOG_INT, Float, Int, Ordinal, Reward, Space

units = st.floats(0, 1)
numbers = st.floats(-1e12, 1e12)
positive = st.floats(1e-12, 1e12)
integers = st.integers(-10_000, 10_000)


@st.composite
def parameters(draw):
    kind, log = draw(st.sampled_from((Float, Int, Ordinal))), draw(st.booleans())
    if kind is Ordinal:
        return Ordinal(draw(st.lists(st.one_of(st.integers(), st.text()), min_size=2, max_size=6, unique=True)))
    bounds = (positive if log else numbers) if kind is Float else (st.integers(1, 10_000) if log else integers)
    low, high = sorted(draw(st.lists(bounds, min_size=2, max_size=2, unique=True)))
    return kind(low, high, log=log)


@given(parameters(), units)
def test_every_point_is_a_value_and_back(parameter, u):
    value = parameter.at(u)
    again = parameter.at(parameter.unit(value))
    assert 0 <= parameter.unit(value) <= 1
    if isinstance(parameter, Float):
        assert parameter.low <= value <= parameter.high
        assert again == pytest.approx(value, rel=1e-9, abs=1e-12 * (parameter.high - parameter.low))
    else:
        assert again == value and type(again) is type(value)


@given(parameters())
def test_the_ends_are_reached(parameter):
    if isinstance(parameter, Ordinal):
        assert (parameter.at(0.0), parameter.at(1.0)) == (parameter.choices[0], parameter.choices[-1])
    else:
        assert (parameter.at(0.0), parameter.at(1.0)) == (parameter.low, parameter.high)


@given(st.data(), st.booleans())
def test_integers_come_back_to_the_limits_of_their_type(data, log):
    most = LARGEST_LOG_INT if log else LARGEST_INT
    ends = st.integers(1 if log else -most, most) | st.sampled_from([1, 2, most - 1, most])
    low, high = sorted(data.draw(st.lists(ends, min_size=2, max_size=2, unique=True)))
    parameter = Int(low, high, log=log)
    for value in (low, high, low + 1, high - 1, data.draw(st.integers(low, high))):
        assert parameter.at(parameter.unit(value)) == value


@given(parameters(), units, units)
def test_the_order_is_kept(parameter, u, v):
    u, v = min(u, v), max(u, v)
    rank = parameter.choices.index if isinstance(parameter, Ordinal) else lambda value: value
    slack = 1e-12 * abs(parameter.high) if isinstance(parameter, Float) else 0
    assert rank(parameter.at(u)) <= rank(parameter.at(v)) + slack


def test_scales_by_hand():
    C = Float(1e-3, 1e3, log=True)
    assert [C.at(u) for u in (0, 1 / 6, 0.5, 1)] == pytest.approx([1e-3, 1e-2, 1, 1e3])
    assert C.unit(10.0) == pytest.approx(4 / 6)
    assert [Ordinal([*"abcd"[:n]]).unit("b") for n in (2, 3, 4)] == [3 / 4, 1 / 2, 3 / 8]  # the middle of its share
    assert Float(2, 4).at(0.25) == 2.5 and isinstance(Float(2, 4).at(0), float)


@pytest.mark.parametrize("parameter", [Int(1, 3), Int(-2, 4), Int(0, 1), Ordinal(["S", "M", "L", "XL"])])
def test_integers_and_choices_have_equal_shares_at_the_ends_too(parameter):
    values = [parameter.at(u) for u in (np.arange(8400) + 0.5) / 8400]
    counts = [values.count(value) for value in dict.fromkeys(values)]
    n = len(parameter.choices) if isinstance(parameter, Ordinal) else parameter.high - parameter.low + 1
    assert len(counts) == n
    assert counts == [8400 // len(counts)] * len(counts)


def test_integers_on_a_log_scale_have_the_share_of_their_ratio():
    n = Int(1, 8, log=True)
    edges = [math.log(value / 0.5) / math.log(8.5 / 0.5) for value in (0.5, 1.5, 2.5, 7.5, 8.5)]
    for value, low, high in ((1, *edges[:2]), (2, *edges[1:3]), (8, *edges[3:])):
        assert n.at(low + 1e-9) == n.at(high - 1e-9) == value
    assert Int(1, LARGEST_INT).at(1.0) == LARGEST_INT and Int(1, 1000, log=True).at(0.5) == 22


def test_a_space_keeps_names_and_order():
    space = Space({"C": Float(1e-3, 1e3, log=True), "depth": Int(1, 12), "size": Ordinal(["S", "M", "L"])})
    point = space.point([0.5, 0.0, 0.99])
    assert list(point) == ["C", "depth", "size"] and point == {"C": pytest.approx(1.0), "depth": 1, "size": "L"}
    assert space.point(space.unit(point)) == {**point, "C": pytest.approx(1.0)}
    assert space.domain.tolist() == [[0, 1]] * 3 and space.d == 3
    assert Space(space).parameters == space.parameters


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Float(1, 1), "high must be a number > low = 1; got 1"),
        (lambda: Float(float("nan"), 1), "low must be a number"),
        (lambda: Float(0, 1, log=True), "low must be > 0 on a log scale; got 0"),
        (lambda: Float(1, 2, log="yes"), "log must be True or False"),
        (lambda: Int(0, 5, log=True), "low must be > 0 on a log scale"),
        (lambda: Int(1.0, 5), "low must be an integer; got 1.0"),
        (lambda: Int(5, 4), "high must be an integer > low = 5"),
        (lambda: Int(0, 2**60), "low and high must be within"),
        (lambda: Int(1, 2**52, log=True), f"low and high must be within +-{2**40} on a log scale"),
        (lambda: Float(-1e308, 1e308), "high must be such that high - -1e+308 is a number"),
        (lambda: Reward(-1e308, 1e308), "reward_range must be (low, high), whose difference is a number > 0"),
        (lambda: Ordinal(["a"]), "choices must be two or more"),
        (lambda: Ordinal("abc"), "choices must be a list"),
        (lambda: Ordinal([1, 1]), "all different"),
        (lambda: Ordinal([[1], [2]]), "hashable"),
        (lambda: Space({}), "space must be a dict"),
        (lambda: Space({"C": (0, 1)}), "parameter 'C' must be a Float, an Int, an Ordinal or a Choice"),
        (lambda: Space({3: Int(0, 1)}), "the name of a parameter must be a string"),
        (lambda: Space({"C": Int(0, 3)}).unit({"D": 1}), "a point must be a dict of C"),
        (lambda: Int(0, 3).unit(1.5), "a value must be an integer of Int"),
        (lambda: Float(0, 3).unit(5), "a value must be a number of Float"),
        (lambda: Ordinal(["a", "b"]).unit("c"), "a value must be a choice of Ordinal"),
        (lambda: Reward(1, 0), "reward_range must be"),
        (lambda: Reward(0, 1, "up"), "direction must be 'maximize' or 'minimize'"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(ValueError) as caught:
        make()
    assert message in str(caught.value)


def test_rewards_of_any_range():
    loss = Reward(-2, 6, "minimize")
    assert [loss.scaled(loss.number(value)) for value in (-2, 0, np.float32(6))] == [1.0, 0.75, 0.0]
    assert Reward().scaled(Reward().number(np.array(0.25))) == 0.25
    assert Reward().number(1 + 1e-15) == 1.0  # rounding
    assert [Reward().number(x) for x in (0, 1, Fraction(1, 4), np.int8(1), np.float16(0.5))] == [0, 1, 0.25, 1, 0.5]
    wrong_kinds = (1j, np.complex128(0.5 + 0.7j), np.array(0.5 + 0j), True, np.True_, "0.5", b"1", np.array("0.5"))
    for wrong in (6.1, -2.1, math.nan, math.inf, 10**400, None, "much", [1, 2], np.array([0.5]), *wrong_kinds):
        with pytest.raises(ValueError, match=r"a number in \[-2, 6\], the reward_range"):
            loss.number(wrong)


@pytest.mark.parametrize("high", [1e-6, 1.0, 1e6])
def test_what_counts_as_rounding_follows_the_width_of_the_range(high):
    reward = Reward(0, high)
    assert reward.number(high * (1 + 5e-10)) == high and reward.number(-5e-10 * high) == 0.0
    for wrong in (high * (1 + 2e-9), -2e-9 * high):
        with pytest.raises(ValueError, match="Give a wider range"):
            reward.number(wrong)
