"""MST, AIM and PrivBayes as dpmm ships them, on codes that are binned already: its own binning is switched off."""

from collections.abc import Callable
from typing import Any

import exchange


def fit(codes: Any, job: dict[str, Any]) -> Callable[[int], Any]:
    """Fit the pipeline that the job names, in one process."""
    from dpmm import pipelines

    kinds = {"mst": pipelines.MSTPipeline, "aim": pipelines.AIMPipeline, "privbayes": pipelines.PrivBayesPipeline}
    settings = {"epsilon": job["epsilon"], "delta": job["delta"], "disable_processing": True, "n_jobs": 1}
    pipeline = kinds[job["mechanism"]](**settings)
    pipeline.fit(codes, domain=job["domain"], random_state=job["seed"])
    return lambda rows: pipeline.generate(n_records=rows, random_state=job["seed"])


if __name__ == "__main__":
    exchange.run("dpmm", fit)
