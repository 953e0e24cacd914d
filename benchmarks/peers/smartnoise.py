"""MST and AIM as SmartNoise ships them. The domain is given, so that no category is read from the rows."""

from collections.abc import Callable
from typing import Any

import exchange


def fit(codes: Any, job: dict[str, Any]) -> Callable[[int], Any]:
    """Fit the synthesizer that the job names."""
    from snsynth import Synthesizer
    from snsynth.transform import LabelTransformer, TableTransformer

    columns = []
    for size in job["domain"].values():
        labels = LabelTransformer(nullable=False)
        labels.fit(range(size))
        columns.append(labels)
    synthesizer = Synthesizer.create(job["mechanism"], epsilon=job["epsilon"], delta=job["delta"])
    synthesizer.fit(codes, transformer=TableTransformer(columns), preprocessor_eps=0.0)

    def sample(rows: int) -> Any:
        import pandas

        return pandas.DataFrame(synthesizer.sample(rows), columns=list(codes.columns))

    return sample


if __name__ == "__main__":
    exchange.run("smartnoise-synth", fit)
