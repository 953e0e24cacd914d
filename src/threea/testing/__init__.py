"""For tests: noise that is silent or seeded, and the laws that a proven recipe must pass, yours included."""

from __future__ import annotations

from threea.testing.laws import LAWS, check_recipe
from threea.testing.noise import SeededNoise, SilentNoise
from threea.testing.table_laws import TABLE_LAWS
from threea.testing.tables import CASES, Case, OnlySums

__all__ = ["CASES", "LAWS", "TABLE_LAWS", "Case", "OnlySums", "SeededNoise", "SilentNoise", "check_recipe"]
