"""What a model shows of itself: the tree of columns, and the teacher's largest weights."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from threea.model_summary import Term, TermsFigure, TreeFigure
from threea.report.terms import cell_label, terms
from threea.report.tree import MOST, ROW, tree
from threea.table.cells import Merged
from threea.table.schema import Column, Kind, Schema

PHONE = 309
"""Width of a panel's inside, in pixels, on a phone 375 wide."""
LETTER = 7.2
"""Width of an average letter of a name, in pixels."""


@st.composite
def trees(draw: st.DrawFn) -> TreeFigure:
    """Draw a forest of up to 120 columns."""
    count = draw(st.integers(2, 120))
    parents: list[int | None] = [None]
    for place in range(1, count):
        parents.append(draw(st.sampled_from((None, place - 1, 0)) | st.integers(0, place - 1)))
    rng = np.random.default_rng(count)
    strengths = [
        0.0 if parent is None else float(share) for parent, share in zip(parents, rng.random(count), strict=True)
    ]
    return TreeFigure(tuple(f"column {place}" for place in range(count)), tuple(parents), tuple(strengths))


class TestTree:
    FIGURE = TreeFigure(("age", "ward", "cost", "sex"), (None, 0, 1, 0), (0.0, 0.25, 0.1, 0.05))

    def test_every_column_has_a_line_under_its_parent(self) -> None:
        drawn = tree(self.FIGURE, "died")
        assert [node.name for node in drawn.nodes] == ["age", "sex", "ward", "cost"]
        assert [node.root for node in drawn.nodes] == [True, False, False, False]
        assert [node.share for node in drawn.nodes] == ["", "5.0%", "25.0%", "10.0%"]
        x = {node.name: float(node.x) for node in drawn.nodes}
        assert x["age"] < x["sex"] == x["ward"] < x["cost"]
        rows = [float(node.y) for node in drawn.nodes]
        assert [below - above for above, below in pairwise(rows)] == [ROW] * 3

    def test_a_stronger_tie_is_a_thicker_line(self) -> None:
        width = {node.name: float(node.width) for node in tree(self.FIGURE, None).nodes}
        assert width["age"] == 0 < width["sex"] < width["cost"] < width["ward"]

    def test_it_can_be_read_out(self) -> None:
        summary = tree(self.FIGURE, "died").summary
        assert summary.startswith("age: a root; sex depends on age: 5.0% of the rows")

    def test_without_a_target_no_line_leads_to_the_roots(self) -> None:
        assert tree(self.FIGURE, None).label_line == ""
        assert tree(self.FIGURE, "died").label_line.count("M") == 1

    def test_of_many_columns_the_strongest_ties_are_shown(self) -> None:
        count = 100
        strengths = (0.0, *np.linspace(0.01, 0.99, count - 1))
        figure = TreeFigure(tuple(map(str, range(count))), (None, *range(count - 1)), strengths)
        drawn = tree(figure, "y")
        assert len([node for node in drawn.nodes if node.edge]) == MOST
        assert [node.name for node in drawn.nodes] == [str(place) for place in range(count - MOST - 1, count)]
        assert drawn.left_out == count - MOST - 1

    @given(figure=trees(), label=st.sampled_from((None, "y")))
    def test_it_fits_a_phone_and_no_line_is_taken_twice(self, figure: TreeFigure, label: str | None) -> None:
        drawn = tree(figure, label)
        rows = [float(node.y) for node in drawn.nodes]
        assert len(set(rows)) == len(rows)
        assert max(rows) < float(drawn.height)
        for node in drawn.nodes:
            end = float(node.x) + 11 + LETTER * len(node.short)
            assert end < PHONE - 40
        edges = sum(parent is not None for parent in figure.parents)
        assert sum(bool(node.edge) for node in drawn.nodes) == min(edges, MOST)
        assert len(drawn.nodes) + drawn.left_out == len(figure.nodes)

    @given(figure=trees())
    def test_every_line_starts_at_the_parent_and_ends_at_the_child(self, figure: TreeFigure) -> None:
        nodes = {node.name: node for node in tree(figure, None).nodes}
        for name, parent in zip(figure.nodes, figure.parents, strict=True):
            if parent is not None and name in nodes and nodes[name].edge:
                above, edge = nodes[figure.nodes[parent]], nodes[name].edge
                assert edge.startswith(f"M{above.x} {above.y}V")
                assert edge.endswith(f"H{nodes[name].x}")


WARD = Column(name="ward", kind=Kind.CATEGORICAL, categories=("a", "b", "c", "d", "e"), open_ended=True)
COST = Column(name="cost", kind=Kind.REAL, lower=0.0, upper=4.0, special=(-1.0,))
DIED = Column(name="died", kind=Kind.BOOLEAN, nullable=False)


class TestCellLabels:
    @pytest.mark.parametrize(
        ("groups", "label"),
        [
            ((0, 1, 1, 1, 1, 1, 1), "b, c, d and 3 more"),
            ((1, 0, 0, 0, 0, 0, 0), "a"),
            ((1, 1, 1, 1, 0, 0, 0), "a, b, c, d"),
            ((0, 0, 0, 0, 0, 1, 1), "other, missing"),
        ],
    )
    def test_categories_are_named_or_counted(self, groups: tuple[int, ...], label: str) -> None:
        assert cell_label(WARD, Merged(cells=WARD.cells(2), groups=groups), 1) == label

    @pytest.mark.parametrize(
        ("groups", "label"),
        [
            ((0, 0, 1, 1, 0, 0), "1 to 3"),
            ((0, 1, 0, 0, 1, 0), "0 to 1, 3 to 4"),
            ((1, 0, 0, 0, 1, 1), "3 to 4, −1, missing"),
            ((0, 0, 0, 0, 0, 1), "missing"),
        ],
    )
    def test_neighbouring_bins_are_one_range(self, groups: tuple[int, ...], label: str) -> None:
        assert cell_label(COST, Merged(cells=COST.cells(4), groups=groups), 1) == label

    def test_foreign_text_is_made_harmless(self) -> None:
        evil = Column(name="x", kind=Kind.CATEGORICAL, categories=("a\u202eb", "x" * 1000), nullable=False)
        label = cell_label(evil, Merged(cells=evil.cells(2), groups=(0, 0)), 0)
        assert "\u202e" not in label
        assert len(label) < 100


class TestTerms:
    SCHEMA = Schema((WARD, COST, DIED), target="died")
    CLASSES = Merged(cells=DIED.cells(2), groups=(0, 1))
    COSTS = Merged(cells=COST.cells(4), groups=(0, 0, 1, 1, 2, 2))

    def figure(self, *, two: bool = True) -> TermsFigure:
        largest = Term(self.CLASSES, 1, self.COSTS, 1, 2.0, 0.5)
        return TermsFigure((largest, Term(self.CLASSES, 1, self.COSTS, 2, -1.0, 0.25)), 7, two)

    def test_bars_and_error_bars_are_to_scale(self) -> None:
        drawn = terms(self.figure(), self.SCHEMA)
        full = 2.0 + 1.96 * 0.5
        for bar, (weight, stddev) in zip(drawn.bars, [(2.0, 0.5), (-1.0, 0.25)], strict=True):
            low, high = map(float, re.findall(r"M([\d.]+) 10H([\d.]+)", bar.error)[0])
            assert low == pytest.approx(500 + 500 * (weight - 1.96 * stddev) / full, abs=0.06)
            assert high == pytest.approx(500 + 500 * (weight + 1.96 * stddev) / full, abs=0.06)
            assert float(bar.dot[1:].split()[0]) == pytest.approx(500 + 500 * weight / full, abs=0.06)
        assert [bar.text for bar in drawn.bars] == ["+2.00 ± 0.98", "−1.00 ± 0.49"]

    def test_it_says_what_speaks_for_what(self) -> None:
        drawn = terms(self.figure(), self.SCHEMA)
        assert drawn.group == "true"
        assert [(bar.feature, bar.cell, bar.group) for bar in drawn.bars] == [
            ("cost", "1 to 3", ""),
            ("cost", "3 to 4, missing", ""),
        ]
        assert drawn.summary == "cost 1 to 3: +2.00 ± 0.98 for true; cost 3 to 4, missing: −1.00 ± 0.49 for true"

    def test_of_many_classes_each_weight_names_its_own(self) -> None:
        drawn = terms(self.figure(two=False), self.SCHEMA)
        assert drawn.group == ""
        assert [bar.group for bar in drawn.bars] == ["true", "true"]

    def test_no_weights_no_bars(self) -> None:
        drawn = terms(TermsFigure((), 0, True), self.SCHEMA)
        assert (drawn.bars, drawn.group, drawn.summary) == ((), "", "")
