"""What the published rows of 2014 say of containers and an overlay, as a figure with intervals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from osmef.importers import import_files
from osmef.report.figures import FigureOptions, figure
from osmef.report.pingpong import Messages
from tests.published import published
from tests.report.drawn import legend, visible


def intervals(axes: Axes) -> list[np.ndarray]:
    """Return the ends of the intervals of each series, by size: low and high."""
    drawn = [one for one in axes.collections
             if isinstance(one, LineCollection) and one.get_label() == "interval"]  # fmt: skip
    return [np.array([segment[:, 1] for segment in one.get_segments()]) for one in drawn]


def test_the_relative_rates_of_docker_and_weave_have_intervals(tmp_path: Path) -> None:
    import_files("apachebench", [published("sdvn-2014/logdata.csv")], tmp_path)
    messages = Messages(relative=True, reference="Reference", interval=True)
    drawn = figure("pingpong-transfer", tmp_path, wanted=FigureOptions(messages=messages))
    assert len(legend(drawn)) == 3
    (axes,) = visible(drawn)
    docker, weave = sorted(intervals(axes), key=lambda ends: -np.median(ends[:, 1]))
    assert min(len(docker), len(weave)) >= 20
    assert (docker[:, 0] <= docker[:, 1]).all()
    # Docker costs about a seventh, its overlay half: at every size even the upper end is below 1.
    assert (docker[:, 1] < 1).all()
    assert np.median(docker, axis=0).tolist() == pytest.approx([0.838, 0.853], abs=0.002)
    assert np.median(weave, axis=0).tolist() == pytest.approx([0.466, 0.510], abs=0.002)
    assert weave[:, 1].max() < docker[:, 0].min()
