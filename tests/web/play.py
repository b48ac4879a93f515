"""Runs `web_play`, which says how."""

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    folder = Path(__file__).resolve().parent.parent
    sys.path.insert(0, str(folder))
    runpy.run_path(str(folder / "web_play.py"), run_name="__main__")
