"""Run every benchmark, or those named: `python -m benchmarks scale noise`."""

import importlib
import sys

NAMES = (
    "imports",
    "noise",
    "gradients",
    "dpgan",
    "scale",
    "times",
    "graph_columns",
    "adult",
    "privbayes",
    "evaluate",
    "false_alarms",
    "networks",
    "network_times",
    "gallery",
    "published_leaks",
    "mcgen_leaks",
    "network_leaks",
    "laplace_digits",
    "clustmix_formula",
    "regression",
    "score",
    "limits",
    "two_tables",
    "ledger_faults",
    "fuzz",
    "readers",
    "hostile_models",
    "kills",
    "replay",
    "engine_faults",
    "engine_disorder",
    "engines",
    "rules",
    "install",
)

if __name__ == "__main__":
    unknown = [name for name in sys.argv[1:] if name not in NAMES]
    if unknown:
        sys.exit(f"benchmark ({unknown[0]}) must be one of {', '.join(NAMES)}")
    for name in sys.argv[1:] or NAMES:
        importlib.import_module(f"benchmarks.{name}").main()
