"""Public datasets to measure on, one loader each.

Nothing is downloaded: a loader reads a folder that holds the files its documentation names. A dataset's schema holds
what its published documentation makes public; where that gives no bounds, the schema is None, and a release finds
them from its budget.
"""

from __future__ import annotations

import difflib
from os import PathLike
from pathlib import Path

from benchmarks.datasets import clinical, mimic3, signals, tables
from benchmarks.datasets.dataset import Dataset, Loader
from benchmarks.datasets.published import Published
from threea.errors import InputError, SettingError

LOADERS: dict[str, Loader] = {
    "adult": tables.adult,
    "adult32": tables.adult32,
    "census": tables.census,
    "credit": tables.credit,
    "isolet": signals.isolet,
    "mnist": signals.mnist,
    "physionet2012": clinical.physionet2012,
    "support2": clinical.support2,
    "diabetes130": clinical.diabetes130,
    "pima": tables.pima,
    "phishing": tables.phishing,
    "mimic3-demo": clinical.mimic3_demo,
    "mimic3-mortality": mimic3.mortality,
    "mimic3-stay": mimic3.length_of_stay,
}
"""Every loader by its dataset's name."""


def check(name: str) -> None:
    """Refuse a name that no dataset has.

    Raises:
        SettingError: There is no such dataset.
    """
    if name not in LOADERS:
        close = difflib.get_close_matches(name, LOADERS, n=1, cutoff=0.5)
        guess = f"did you mean {close[0]}? " if close else ""
        raise SettingError(f"dataset ({name}) is unknown; {guess}known: {', '.join(LOADERS)}")


def load(name: str, folder: str | PathLike[str]) -> Dataset:
    """Load a dataset from a folder.

    Raises:
        SettingError: There is no such dataset.
        InputError: The folder or the dataset's file is not there, or cannot be read.
    """
    check(name)
    if not Path(folder).is_dir():
        raise InputError(f"data folder ({folder}) does not exist; name the folder that holds the datasets")
    return LOADERS[name](Path(folder))


__all__ = ["LOADERS", "Dataset", "Loader", "Published", "check", "load"]
