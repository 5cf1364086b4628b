"""Every target by name."""

from collections.abc import Mapping
from typing import Final

from tests.fuzz import codecs, evidence, files, outside
from tests.fuzz.target import Target

TARGETS: Final[Mapping[str, Target]] = {
    target.name: target for target in (*codecs.TARGETS, *evidence.TARGETS, *files.TARGETS, *outside.TARGETS)
}
