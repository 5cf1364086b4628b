"""Logs of a service: one line a step on stderr, time first, or one JSON object a line."""

import json
import logging
import sys
import traceback

from chainfl.errors import InputError


class JsonFormatter(logging.Formatter):
    """One JSON object per record; `extra={"facts": …}` adds fields for machines."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line."""
        plain = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03}",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        return json.dumps(plain | getattr(record, "facts", {}))


LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING}


def set_up_logs(*, as_json: bool, level: str = "info") -> None:
    """Send our own logs to stderr; libraries log warnings and errors only.

    Raises:
        InputError: there is no such level.
    """
    if level not in LEVELS:
        raise InputError(f"log level {level!r}: there are {', '.join(LEVELS)}")
    handler = logging.StreamHandler(sys.stderr)
    text = logging.Formatter("%(asctime)s %(levelname).1s %(message)s", "%H:%M:%S")
    handler.setFormatter(JsonFormatter() if as_json else text)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("chainfl").setLevel(LEVELS[level])


def traced(error: BaseException) -> str:
    """Where it went wrong, for a log: what an endpoint sent may hold characters that no log can be written with."""
    return "".join(traceback.format_exception(error)).encode(errors="backslashreplace").decode()


def one_line(error: BaseException, most: int = 300) -> str:
    """What went wrong, in one line that can be shown: an error of ours in its own words, another with its name."""
    text = " ".join(str(error).split()).encode(errors="replace").decode()
    shown = text if type(error).__module__.startswith("chainfl") else f"{type(error).__name__}: {text}"
    return shown if len(shown) <= most else shown[: most - 1] + "…"
