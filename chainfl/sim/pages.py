"""Reports as blocks: a heading, text, a table, pictures; the same blocks are written as Markdown and as HTML."""

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass

Row = tuple[str, ...]

_CODE = re.compile("`([^`]+)`")


@dataclass(frozen=True, slots=True)
class Block:
    """A heading, some paragraphs, a table where there are columns, and pictures."""

    title: str
    text: Sequence[str] = ()
    columns: Row = ()
    rows: Sequence[Row] = ()
    pictures: Sequence[str] = ()
    level: int = 2


def as_markdown(blocks: Sequence[Block]) -> str:
    """The report for people who read text."""
    return "\n".join(line for block in blocks for line in _markdown(block)).rstrip() + "\n"


def _markdown(block: Block) -> list[str]:
    lines = [f"{'#' * block.level} {block.title}", ""]
    for text in block.text:
        lines += [text, ""]
    if block.columns:
        lines.append(_bar(block.columns))
        lines.append("|" + "---|" * len(block.columns))
        lines += [_bar(row) for row in block.rows]
        lines.append("")
    for picture in block.pictures:
        lines += [f"![{block.title}]({picture})", ""]
    return lines


def _bar(cells: Row) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


_STYLE = (
    "body{font:15px/1.5 sans-serif;max-width:70em;margin:2em auto;padding:0 1em}"
    "table{border-collapse:collapse}td,th{border:1px solid #cbd5e0;padding:.2em .6em;text-align:left}"
    "img{max-width:100%}"
)


def as_html(blocks: Sequence[Block]) -> str:
    """The report as one page; pictures lie beside it."""
    body = "\n".join(line for block in blocks for line in _html(block))
    title = html.escape(blocks[0].title)
    return (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style>\n{body}\n</html>\n"
    )


def _as_code(text: str) -> str:
    """What stands between backticks, as code."""
    return _CODE.sub(r"<code>\1</code>", text)


def _html(block: Block) -> list[str]:
    lines = [f"<h{block.level}>{html.escape(block.title)}</h{block.level}>"]
    lines += [f"<p>{_as_code(html.escape(text))}</p>" for text in block.text]
    if block.columns:
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in block.columns)
        rows = [
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in block.rows
        ]
        lines += [f"<table><tr>{head}</tr>", *rows, "</table>"]
    lines += [
        f'<p><img src="{html.escape(picture)}" alt="{html.escape(block.title)}"></p>'
        for picture in block.pictures
    ]
    return lines
