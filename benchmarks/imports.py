"""How long `import threea` takes, beside the interpreter's own start."""

import statistics

from benchmarks.record import record, timed

REPEATS = 15


def main() -> None:
    """Time each import in fresh processes, in turn."""
    codes = {
        "python alone": "pass",
        "import threea": "import threea",
        "threea.synthesize": "import threea; threea.synthesize",
    }
    seconds: dict[str, list[float]] = {name: [] for name in codes}
    for _ in range(REPEATS):
        for name, code in codes.items():
            seconds[name].append(timed(["-c", code])["seconds"])
    results = {
        name: {"median_seconds": statistics.median(times), "least": min(times), "most": max(times)}
        for name, times in seconds.items()
    }
    record("imports", {"repeats": REPEATS}, results)
