"""The short form of `make fuzz`: some seconds of random changes to files that parsers of our own read."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
SECONDS = 6
READ_HERE = (
    "zip", "tar", "7z", "rar", "docx", "odt", "pdf", "rtf", "doc", "xls", "ppt", "msg", "eml", "svg", "parquet", "sqlite",
    "tiff", "gif", "bmp", "heic", "jp2", "ttf", "woff2", "mp4", "mkv", "ogg", "flac", "mp3", "avi", "wav",
)  # fmt: skip


def test_changed_files_cause_no_fault(tmp_path: Path) -> None:
    command = ["scripts/fuzz.py", "+".join(READ_HERE), "--plain", "--seconds", str(SECONDS), "--found", str(tmp_path)]
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split(" runs, ")[-2].split()[-1]) > len(READ_HERE), done.stdout
