"""What a comparison searches over: ranges as Hydra types them, and points that all contestants share."""

import re

import pytest

from contrastive.config import CONFIGS
from contrastive.config.identity import flatten
from contrastive.config.reference import option_files
from contrastive.errors import ConfigError
from contrastive.study.compare.space import COMMON, GROUPS, knobs_of, point_at, points, read_knob
from tests.helpers import compose_settings, write_files

LR = "tag(log,interval(1e-4,1e-2))"


def test_a_range_is_read_as_hydra_types_it():
    even, log = read_knob("x", "interval(0, 2)"), read_knob("x", "tag(log, interval(0.01, 1))")
    assert [even.at(u) for u in (0, 0.25, 0.5)] == ["0", "0.5", "1"]
    assert [log.at(u) for u in (0, 0.5)] == ["0.01", "0.1"]
    assert [read_knob("x", "int(interval(1, 11))").at(u) for u in (0, 0.5)] == ["1", "6"]
    assert [read_knob("x", "choice(a, b)").at(u) for u in (0, 0.49, 0.5, 0.99)] == ["a", "a", "b", "b"]
    assert (even.place({"x": "1.5"}), log.place({"x": 0.1})) == (0.75, 0.5)
    assert [read_knob("x", "choice(a,b)").place({"x": "a"}), even.place({"x": None}), even.place({})] == [None] * 3


def test_a_range_may_be_that_of_a_ratio():
    """Points have the settings themselves; the ratio is what is common to all."""
    settings = {"temperature": 0.5, "optimizer.lr": 0.001, "loss.push": 1.0}
    (plain, *_) = knobs_of({}, settings, {}, [])
    pushed = knobs_of({}, settings, {"loss.push": "tag(log,interval(1,8))"}, [])
    (strong, *_) = knobs_of({}, {**settings, "loss.push": 4.0}, {}, [])
    assert (plain.key, plain.typed, plain.low, plain.high) == ("temperature", "tag(log, interval(0.05, 1))", 0.05, 1)
    assert (strong.typed, strong.low, strong.high) == ("tag(log, interval(0.2, 4))", 0.2, 4)
    assert [(knob.key, knob.times) for knob in pushed] == [("temperature", "loss.push"), ("loss.push", "")]
    assert read_knob("temperature", pushed[0].typed) == pushed[0], "as records have it"
    assert pushed[0].name == "temperature / loss.push"
    for p, q in zip(points([plain], 9, draw=0)[1:], points(pushed, 9, draw=0)[1:], strict=True):
        assert float(q["temperature"]) == pytest.approx(float(p["temperature"]) * float(q["loss.push"]), rel=0.01)
        assert pushed[0].place(q) == pytest.approx(plain.place(p), abs=0.01)
    typed = knobs_of({}, settings, {"loss.push": "interval(1,8)", "temperature": "interval(0.1,0.2)"}, [])
    assert (typed[0].times, typed[0].high) == ("", 0.2)
    assert [knob.high for knob in knobs_of({}, {"temperature": 0.5}, {}, [])] == [1.0], "there is no push"
    assert knobs_of({}, settings, {}, [], fixed=["temperature"]) == []


@pytest.mark.parametrize(
    "typed", ["0.1", "interval(1, 0)", "tag(log, interval(0, 1))", "choice(1)", "a b(", "choice(1, 2) * x"]
)
def test_what_is_no_range_is_refused(typed):
    with pytest.raises(ConfigError, match="is not a range: try"):
        read_knob("x", typed)


def test_methods_share_the_points_of_common_knobs():
    one = [read_knob("temperature", "interval(0, 1)"), read_knob("optimizer.lr", LR)]
    more = [*one, read_knob("tau_plus", "interval(0, 1)"), read_knob("loss.beta", "interval(0, 1)")]
    without_temperature = [one[1], read_knob("loss.lam", "interval(0, 1)")]
    a, b, c = points(one, 9, draw=3), points(more, 9, draw=3), points(without_temperature, 9, draw=3)
    assert len(a) == len(b) == len(c) == 9
    assert a[0] == b[0] == c[0] == {}  # the default settings
    for p, q, r in zip(a[1:], b[1:], c[1:], strict=True):
        assert {key: q[key] for key in p} == p
        assert r["optimizer.lr"] == p["optimizer.lr"]
        assert r["loss.lam"] == q["tau_plus"]  # the first coordinate after the common ones
    assert points(one, 9, draw=4)[1:] != a[1:]
    assert points(one, 5, draw=3) == a[:5]
    assert points([], 3, draw=0) == [{}, {}, {}]


def test_points_fill_their_ranges():
    drawn = points([read_knob("temperature", "interval(0, 1)")], 17, draw=0)[1:]
    places = sorted(float(point["temperature"]) for point in drawn)
    assert all(i / 16 <= place < (i + 1) / 16 + 1e-3 for i, place in enumerate(places))  # one in each sixteenth


def test_common_knobs_come_first_and_typed_ranges_win(tmp_path):
    reads = {"temperature": 0.5, "optimizer.lr": 0.001, "tau_plus": 0.1, "loss.beta": 1.0}
    choices = {"loss": "hard_negative", "optimizer": "adam", "regularizer": "none"}
    keys = [knob.key for knob in knobs_of(choices, reads, {}, [])]
    assert keys == ["temperature", "optimizer.lr", "loss.beta", "tau_plus"]
    narrow = knobs_of(choices, reads, {"temperature": "interval(0.1,0.2)"}, [])
    assert (narrow[0].low, narrow[0].high) == (0.1, 0.2)
    without = {key: value for key, value in reads.items() if key != "temperature"}
    assert "temperature" not in [knob.key for knob in knobs_of(choices, without, {}, [])]
    write_files(tmp_path, {"search/loss/mine.yaml": "loss.width: interval(1, 2)\n"})
    own = knobs_of({**choices, "loss": "mine"}, {**reads, "loss.width": 1}, {}, [tmp_path])
    assert [knob.key for knob in own] == ["temperature", "optimizer.lr", "loss.width"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("loss.widht: interval(1, 2)", "mine.yaml has loss.widht, which is no setting of it: try loss.SETTING: "),
        ("loss:\n  width: interval(1, 2)", "search/loss/mine.yaml has loss, which is no setting of it: try loss."),
        ("- loss.width: interval(1, 2)", "mine.yaml is no list of settings and ranges: try loss.temperature: interval"),
        ("loss.width=interval(1, 2)", "mine.yaml is no list of settings and ranges"),
    ],
)
def test_a_slip_in_a_file_of_ranges_is_said_and_leaves_no_loss_untuned(tmp_path, text, said):
    write_files(tmp_path, {"search/loss/mine.yaml": text})
    with pytest.raises(ConfigError, match=re.escape(said)):
        knobs_of({"loss": "mine"}, {"temperature": 0.5, "loss.width": 1.0}, {}, [tmp_path])


def test_values_of_a_range_with_close_ends_differ_and_stay_in_it():
    knob = read_knob("teacher.momentum", "interval(0.99,0.9999)")
    values = [float(knob.at(i / 64)) for i in range(65)]
    assert len(set(values)) == 65
    assert 0.99 <= min(values) <= max(values) <= 0.9999
    assert read_knob("temperature", "interval(0.05,1)").at(1 / 3) == "0.367"


FILES = [
    (group, path.stem)
    for group in GROUPS for path in sorted((CONFIGS / "search" / group).glob("*.yaml"))
]  # fmt: skip


@pytest.mark.parametrize(("group", "option"), FILES)
def test_every_range_is_of_an_option_and_of_settings_that_it_has(group, option):
    assert option in option_files(group)
    words = [f"{group}={option}"]
    config = compose_settings(*words, "dataset=biased_digits").to_dict()
    knobs = knobs_of({group: option}, {"tau_plus": 0.1, **flatten(config)}, {}, [])
    assert {knob.key for knob in knobs} - set(COMMON) or group == "optimizer"
    for key, value in point_at(knobs, [0.5] * len(knobs)).items():
        compose_settings(*words, "dataset=biased_digits", f"{key}={value}")
