"""What the tests of campaigns share: cells that take a second or two, and nobody to report progress to."""

SMALL_CELLS = """
[base]
model = "mnist-mlp-small"
participants = 8
committee = 3
rounds = 2
local_steps = 1
score_samples = 5
test_samples = 50
"""


def quiet(_line: str) -> None:
    """Take a line of progress and show nothing."""
    return
