"""A release that is killed forgets no charge, leaves no half of a folder, and goes on with the same answers."""

import json
import subprocess
import sys

KILLS, SEED = 10, 7


def test_kills(tmp_path):
    """`python -m benchmarks kills` kills 1,000 times, at every act of a release that can reach the disk."""
    code = "import json, pathlib, sys; from benchmarks import kills; seen, moments = kills.run(int(sys.argv[1]),"
    code += "int(sys.argv[2]), pathlib.Path(sys.argv[3])); print(json.dumps([seen, moments]))"
    # In a process of its own, for one with threads must not be forked.
    command = [sys.executable, "-c", code, str(KILLS), str(SEED), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    seen, moments = json.loads(done.stdout)
    assert seen["kills"] == KILLS == seen["by acts"] + seen["by the clock"]
    assert seen["charged, nothing written"] > 0
    assert seen["resumed"] > 0
    assert seen["resumptions killed"] > 0
    assert seen["staging folders left by the kill"] > 0
    assert moments > 200
