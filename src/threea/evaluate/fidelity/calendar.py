"""Dates by the calendar: whether weekdays, months and times of day are as common among released rows as among real."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from threea.report.words import percent
from threea.table.calendar_cells import LABELS, MONTH, TIME, WEEKDAY, CalendarCells
from threea.table.schema import Column, Kind

Floats = NDArray[np.float64]

BROKEN = 0.05
"""A part of the calendar whose shares are further apart, as total variation, than this and what sampling explains is
told of."""


def compared(column: Column, real: Floats, synthetic: Floats) -> list[dict[str, Any]]:
    """Compare the shares of weekdays, months and, of moments, times of day.

    Returns:
        For each the ``part``, its ``distance`` (total variation), the distance that sampling alone gives on average
        (``chance``), and its ``cells``: label, share of ``real`` and of ``synthetic`` dates; that which is ``furthest``
        apart once more by itself. Nothing if one of the tables has no dates.
    """
    moments = column.kind is Kind.DATETIME
    parts = (WEEKDAY, MONTH, TIME) if moments else (WEEKDAY, MONTH)
    found = []
    for part in parts:
        cells = CalendarCells(column=column.name, part=part, moments=moments, special=column.special)
        index = [cells.index(values) for values in (real, synthetic)]
        counts = [np.bincount(each[each >= 0], minlength=cells.size) for each in index]
        rows = [int(each.sum()) for each in counts]
        if not all(rows):
            return []
        left, right = (each / count for each, count in zip(counts, rows, strict=True))
        spread = np.sqrt(left * (1 - left) * sum(1 / count for count in rows))
        shares = [
            {"label": label, "real": round(float(one), 6), "synthetic": round(float(other), 6)}
            for label, one, other in zip(LABELS[part], left, right, strict=True)
        ]
        apart = np.abs(left - right)
        found.append(
            {
                "part": part,
                "distance": float(apart.sum() / 2),
                "chance": float(spread.sum() / 2 * math.sqrt(2 / math.pi)),
                "furthest": shares[int(apart.argmax())],
                "cells": shares,
            }
        )
    return found


def broken(found: list[dict[str, Any]]) -> list[str]:
    """Say which parts of the calendar are not as in real rows, each by what is furthest apart."""
    off = [(entry["part"], entry["furthest"]) for entry in found if entry["distance"] > BROKEN + entry["chance"]]
    return [
        f"by {part}, {cell['label']} is {percent(cell['real'])} of the real dates and"
        f" {percent(cell['synthetic'])} of the released ones"
        for part, cell in off
    ]
