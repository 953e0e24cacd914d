"""Sampled gradients of a network, replayed exactly; mutants of their training are caught the first time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from threea.adapt import private_gan
from threea.anonymize import interior, network_gradient, sampled
from threea.anonymize.network_gradient import NetworkGradient
from threea.audit.replay import Question, Setting, replay
from threea.recipes import DPGan

RECIPE = DPGan(epochs=1.0, rate=0.5, width=3)


@pytest.fixture(autouse=True)
def few_fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_gan, "FAKES", 8)


def gradients() -> Question:
    (found,) = [question for question in replay(RECIPE, among=[Setting()]) if question.line == private_gan.GRADIENTS]
    return found


def test_gradients_are_within_their_price_and_near_it() -> None:
    """Every unit is in every sample, the worst case of its coins, and answers are held fixed."""
    found = gradients()
    assert found.event == "Sampled"
    assert found.worst > 0.5
    assert not found.over


def test_gradients_that_are_not_clipped_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def unclipped(function: Any, layers: Any, matrix: Any, *, bound: float, step: float, norm: Any) -> Any:
        return 64 * network_gradient_summed(function, layers, matrix, bound=64 * bound, step=64 * step, norm=norm)

    network_gradient_summed = network_gradient.summed
    monkeypatch.setattr(network_gradient, "summed", unclipped)
    assert gradients().worst > 1.1


def test_noise_drawn_once_for_two_steps_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    ask, drawn = sampled.noisy_sum, list[Any]()

    def once(inside: Any, query: Any, event: Any, backend: Any) -> Any:
        """Keep the first step's noise, and add it to every other step's sum."""
        exact = interior.Interior.exact(inside, query, sampled.Norm.L2, backend)
        if not drawn or drawn[-1] is not inside:
            drawn.append(inside)
            return ask(inside, query, event, backend)
        return sampled.Answer(exact * 1.0, 1.0)

    monkeypatch.setattr(sampled, "noisy_sum", once)
    assert gradients().worst == math.inf


def test_a_gradient_of_all_rows_at_once_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows centred on their mean, as batch normalisation does: one row moves the others' gradients."""
    apart = NetworkGradient.matrix

    def centred(query: Any, rows: Any) -> Any:
        matrix = apart(query, rows)
        return (matrix - matrix.mean(axis=0)).astype(np.float32) if len(matrix) else matrix

    monkeypatch.setattr(NetworkGradient, "matrix", centred)
    assert gradients().over
