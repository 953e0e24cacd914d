"""What a user does first: build the wheel, install it into an empty environment, run `threea demo` there.

It needs a package registry; without one it says so and writes nothing. `tests/test_wheel.py` runs the demo from the
unpacked wheel beside packages that are installed already.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.record import record

ROOT = Path(__file__).parents[1]


def main() -> None:
    """Install and run, and write down how long it took and how large it is."""
    with tempfile.TemporaryDirectory() as folder:
        found = installed(Path(folder))
    if found is None:
        print("install: skipped, for no package registry answers")
        return
    record("install", {"extras": [], "constraints": "constraints.txt"}, found)


def installed(folder: Path) -> dict[str, object] | None:
    """Return what was measured, or None where packages cannot be had."""
    run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)], folder)
    (wheel,) = folder.glob("threea-*.whl")
    run([sys.executable, "-m", "venv", str(folder / "environment")], folder)
    python = folder / "environment" / "bin" / "python"
    pip = [str(python), "-m", "pip", "--disable-pip-version-check"]
    probe = [*pip, "download", "--quiet", "--no-deps", "--dest", str(folder / "probe"), "mdurl"]
    if subprocess.run(probe, cwd=folder, capture_output=True).returncode:
        return None
    start = processor_seconds()
    run([*pip, "install", "--quiet", "--constraint", str(ROOT / "constraints.txt"), str(wheel)], folder)
    installing = processor_seconds() - start
    (folder / "empty").mkdir()
    start = processor_seconds()
    demo = json.loads(run([str(python.with_name("threea")), "demo", "--json", "--out", "release"], folder / "empty"))
    running = processor_seconds() - start
    assert demo["guarantee"] == "proven"
    assert all((folder / "empty" / file).is_file() for file in demo["files"])
    packages = json.loads(run([*pip, "list", "--format", "json"], folder))
    files = [path.stat().st_size for path in (folder / "environment" / "lib").rglob("*") if path.is_file()]
    return {
        "wheel_mb": round(wheel.stat().st_size / 1e6, 2),
        "packages": len(packages),
        "installed_mb": round(sum(files) / 1e6),
        "install_processor_seconds": round(installing, 1),
        "demo_processor_seconds": round(running, 1),
        "demo_rows": demo["rows"],
        "demo_guarantee": demo["guarantee"],
    }


def processor_seconds() -> float:
    """Return what the processes started here have taken so far, whatever else the machine was doing."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(command: list[str], folder: Path) -> str:
    """Run a command away from the repository, with nothing of this environment but the path; return what it says."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(command, cwd=folder, env=kept, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()
