"""Does the app do what a round asks of it? Run with: pytest NAME."""

from pathlib import Path

from chainfl.learning.app import load_app
from chainfl.learning.check import WRONG, Trial, check_app


def test_a_rehearsal_finds_nothing_wrong():
    """What `chainfl app check` looks at, on a few samples."""
    app = load_app(str(Path(__file__).with_name("app.py")))
    assert [each for each in check_app(app, Trial()) if each.verdict == WRONG] == []
