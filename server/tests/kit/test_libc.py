"""`give_large_blocks_back`: large freed blocks leave the process even with small blocks between them."""

import subprocess
import sys

_SCRIPT = """
from pathlib import Path
import sys
from sluice.kit.libc import give_large_blocks_back

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


def test_large_freed_blocks_are_returned_to_the_system() -> None:
    done = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, timeout=60, check=True)
    assert int(done.stdout) < 40_000_000
