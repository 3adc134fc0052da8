"""Large blocks that were freed leave the process, also where small ones lie between them."""

import subprocess
import sys

_GROWN = """
from pathlib import Path
import sys
from sluice.kit.memory import give_large_blocks_back

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

give_large_blocks_back()
first = b"x" * (16 << 20)
del first
before, small, large = resident(), [], []
for _ in range(20):
    large.append(b"x" * (8 << 20))
    small.append(b"x" * 500_000)
del large
print(resident() - before)
"""


def test_large_blocks_go_back_to_the_system() -> None:
    done = subprocess.run([sys.executable, "-c", _GROWN], capture_output=True, text=True, timeout=60, check=True)
    assert int(done.stdout) < 40_000_000
