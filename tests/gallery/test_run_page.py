"""The page of `contrastive show`: what it says agrees with the run's result and with slow transcriptions."""

import json
import re
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from contrastive.cli.show import main
from contrastive.experiment.api import Result
from contrastive.experiment.run import run_experiment
from contrastive.experiment.summary import wilson
from contrastive.gallery.run import Judged, confusion, group_bars, judged, plane, worst
from contrastive.run.run import Run, read_run
from contrastive.text import unpack_bits
from tests.gallery.pages import loads_nothing, specs, text_of
from tests.helpers import CONTIGUOUS, compose_settings

pytestmark = pytest.mark.usefixtures("no_library")


@pytest.fixture(scope="module")
def state(runs: list[Path]) -> Run:
    return read_run(runs[0])


@pytest.fixture(scope="module")
def found(runs: list[Path], state: Run) -> Judged:
    return judged(state, device="cpu")


def test_guesses_are_those_of_the_result(found: Judged, state: Run) -> None:
    right = (found.guess == found.data.test.label).numpy()
    assert np.array_equal(right, unpack_bits(state.result["correct"]["knn_top1"]))
    cells, names = confusion(found)
    counted = Counter(zip(found.data.test.label.tolist(), found.guess.tolist(), strict=True))
    assert {(names.index(cell["class"]), names.index(cell["guess"])): cell["n"] for cell in cells} == counted
    for name in names:
        assert sum(cell["percent"] for cell in cells if cell["class"] == name) == pytest.approx(100)


def test_neighbors_are_the_nearest_training_images(found: Judged, runs: list[Path]) -> None:
    encoder, transform = Result(runs[0]).encoder()
    with torch.no_grad():
        bank = torch.nn.functional.normalize(encoder(transform(found.data.pretrain.image)).double())
        query = torch.nn.functional.normalize(encoder(transform(found.data.test.image[:5])).double())
    cosines = query @ bank.T
    nearest = cosines.gather(1, found.neighbors[:5])
    assert torch.allclose(nearest, cosines.sort(1, descending=True).values[:, :10], atol=1e-6)


def test_the_worst_are_wrong_and_their_class_has_the_fewest_votes(found: Judged) -> None:
    label = found.data.test.label
    shares = [float(found.share[row, label[row]]) for row in found.wrong]
    assert shares == sorted(shares) and all(found.guess[row] != label[row] for row in found.wrong)
    assert len(worst(found)) == min(20, len(found.wrong))
    row = int(found.wrong[0])
    assert worst(found)[0][1].startswith(f"{label[row]} → {found.guess[row]} (")


def test_groups_have_the_figures_of_the_audit_and_wilsons_interval(found: Judged, state: Run) -> None:
    stats = pytest.importorskip("scipy.stats")
    audited = state.result["audit"]["groups"]
    bars = group_bars(found, audited)
    assert bars == sorted(bars, key=lambda bar: bar["top1"])
    assert bars[0]["top1"] == min(own["top1"]["knn"] for own in audited)
    for bar in bars[:5]:
        interval = stats.binomtest(round(bar["top1"] * bar["n"] / 100), bar["n"]).proportion_ci(method="wilson")
        assert (bar["low"], bar["high"]) == pytest.approx((100 * interval.low, 100 * interval.high), abs=0.01)
    for bar, again in zip(bars, group_bars(found, []), strict=True):  # where the run had no audit
        assert (again["n"], again["top1"]) == (bar["n"], pytest.approx(bar["top1"]))
    assert 0 <= wilson(0, 1)[0] < wilson(0, 1)[1] < 100 and wilson(100, 3)[1] <= 100


def test_the_map_is_that_of_principal_components() -> None:
    h = torch.randn(30, 5, generator=torch.Generator().manual_seed(0))
    x = (h / h.norm(dim=1, keepdim=True)).double().numpy()
    x = x - x.mean(0)
    values, vectors = np.linalg.eigh(x.T @ x)
    assert np.allclose(np.abs(plane(h)), np.abs(x @ vectors[:, values.argsort()[::-1][:2]]))
    assert plane(h[:1]).tolist() == [[0, 0]]


def test_the_page_of_a_run_is_one_file(runs: list[Path], state: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(runs[0])]) == 0
    page = runs[0] / "show.html"
    assert str(page) in capsys.readouterr().out.splitlines()[-1]
    written = page.read_text()
    text = text_of(written)
    for title in ("Figures", "Groups of class and bias", "Map of the features", "Nearest neighbors", "Curves"):
        assert title in text
    assert f"{state.result['test']['knn_top1']:.2f}" in text and loads_nothing(written)
    groups, features, matrix, curves = specs(written)
    assert len(features["datasets"]["rows"]) == len(unpack_bits(state.result["correct"]["knn_top1"]))
    assert all(point["image"].startswith("data:image/png;base64,") for point in features["datasets"]["rows"])
    assert len(re.findall(r"<img [^>]*>", written.split('<div class="near">')[1].split("</section>")[0])) == 12 * 11
    vl_convert = pytest.importorskip("vl_convert")
    for spec in (groups, features, matrix, curves):
        assert vl_convert.vegalite_to_vega(spec)["marks"]


def test_images_without_labels_have_a_map_and_neighbors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "photos").mkdir()
    for i in range(30):
        Image.fromarray(np.full((8, 8, 3), 8 * i, np.uint8)).save(tmp_path / f"photos/{i:02}.png")
    words = [
        "dataset=image_folder", f"dataset.root={tmp_path}/photos", "dataset.size=8", f"dataset.cache={tmp_path}",
        "encoder.width=2", "batch_size=16", "epochs=1", "device=cpu", "evaluator=[rankme]", CONTIGUOUS,
    ]  # fmt: skip
    run_experiment(compose_settings(*words), tmp_path / "run", words)
    assert main([str(tmp_path / "run")]) == 0
    written = (tmp_path / "run/show.html").read_text()
    text = text_of(written)
    assert "Map of the features" in text and "Nearest neighbors" in text
    assert "What is taken for what" not in text and "The worst images" not in text and 'class="other"' not in written
    (tmp_path / "run/show.html").unlink()
    photos = (tmp_path / "photos").rename(tmp_path / "moved")
    assert main([str(tmp_path / "run")]) == 2
    assert f"{tmp_path}/photos is not a folder" in capsys.readouterr().err
    assert main([str(tmp_path / "run"), f"dataset.root={photos}"]) == 0 and (tmp_path / "run/show.html").exists()
    (photos / "00.png").unlink()
    assert main([str(tmp_path / "run"), f"dataset.root={photos}"]) == 2
    assert "changed since it ran: try dataset.root=PATH, where the same images are" in capsys.readouterr().err


def test_what_cannot_be_shown_is_refused_in_a_sentence(runs, tmp_path, capsys) -> None:
    def refused(*words: object) -> str:
        assert main([str(word) for word in words]) == 2
        return capsys.readouterr().err

    assert "there is no finished run in" in refused(tmp_path) and "holds 2 runs: try" in refused(runs[0].parent)
    assert f"show takes one run, got 2: try contrastive page page.html {runs[0]}" in refused(*runs)
    assert "the run's dataset has no dataset.images: try dataset.root=PATH" in refused(runs[0], "dataset.images=x.npy")
    other = shutil.copytree(runs[1], tmp_path / "other")
    environment = json.loads((other / "environment.json").read_text())
    (other / "environment.json").write_text(json.dumps({**environment, "data": "another"}))
    assert "changed since it ran: try its command with rerun=true" in refused(other)
