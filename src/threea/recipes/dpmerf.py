"""`dpmerf`: a generator fitted to a noisy mean embedding of each class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from threea.adapt.embedding_generator import EmbeddingGenerator
from threea.adapt.ntk import NETS
from threea.framework import Recipe


@dataclass(frozen=True, kw_only=True)
class DPMerf(Recipe):
    """Mean embeddings of the rows, released once, and a network that makes rows with the same; in brackets shares.

    1. Count the rows of each class [.02].
    2. Count the cells of every column by class [.3]: the paper's one-hot part, of all columns. Numbers are placed by
       their noisy ranks. From 128 columns on this is left out, and numbers are placed between their bounds.
    3. Draw random frequencies of a Gaussian kernel, whose length scale follows from the number of columns: the paper's
       code takes it from the private rows. Sum the random Fourier features of the rows by class [.68], in one answer.
    4. Train a generator of random numbers and the class, until its rows have the same mean embeddings and the same
       histograms. It sees the noisy answers alone: any number of steps is free.
    5. Draw a class, random numbers, and a row.

    Args:
        features: How many random frequencies; each has a cosine and a sine.
        length_scale: Of the kernel, in units of the square root of the number of columns; half of the frequencies have
            twice that.
        iterations: How many steps the generator is trained.
        batch: How many rows it makes in a step.
        width: Of its two hidden layers.

    Example:
        >>> DPMerf(iterations=500).guarantee.value
        'proven'

    Reference:
        Harder, Adamczewski and Park 2021, DP-MERF: Differentially private mean embeddings with random features.
    """

    name: ClassVar[str] = "dpmerf"
    summary: ClassVar[str] = "a generator network fitted to a noisy mean embedding of each class"
    needs: ClassVar[Mapping[str, str]] = NETS
    features: int = 1000
    length_scale: float = 0.4
    iterations: int = 1200
    batch: int = 400
    width: int = 256

    def training(self, size: int) -> float:
        """Return the multiplications of all steps, for rows of so many numbers; a cosine counts as a thousand."""
        row = self.width * (self.width + size) + self.features * (size + 1000)
        return float(self.iterations * self.batch * row)

    @property
    def approximate(self) -> EmbeddingGenerator:
        """L1: all steps."""
        return EmbeddingGenerator(
            features=self.features,
            length_scale=self.length_scale,
            iterations=self.iterations,
            batch=self.batch,
            width=self.width,
        )
