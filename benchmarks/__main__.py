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
    "columns",
    "graph_columns",
    "adult",
    "adult_columns",
    "privbayes",
    "evaluate",
    "anonymeter",
    "false_alarms",
    "kip",
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
    "no_target",
    "limits",
    "teacher_settings",
    "interactions",
    "rare_class",
    "separation",
    "number_settings",
    "two_tables",
    "numbers",
    "dates",
    "rows",
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
