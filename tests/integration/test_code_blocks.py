"""Every command in a code block of README and pages is typed by a test, or it is said here why none can."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.test_readme import typed

ROOT = Path(__file__).resolve().parents[2]
FENCED = re.compile(r"^```(\w*)\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)


def sections() -> dict[str, str]:
    """Every page by its name; of the README, whose parts have tests of their own, each part by its heading."""
    files = (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "docker" / "README.md")
    pages = {str(path.relative_to(ROOT)): path.read_text() for path in files}
    _, *parts = re.split(r"^## ", pages.pop("README.md"), flags=re.MULTILINE)
    return pages | {f"README.md#{part.partition(chr(10))[0]}": part for part in parts}


PAGES = sections()

# Pages as a whole: tutorials are typed from the first line to the last, the changes of extending.md are made and
# tested, and the reference shows each command's form (test_docs.py holds its options to the commands).
WHOLE = {
    "docs/tutorials/": "tests/integration/test_tutorials.py",
    "docs/extending.md": "tests/extending",
    "docs/reference/": "tests/test_docs.py",
}

# What is played here, script by script, each in a folder of its own with the files of `folder`.
HERE = {
    "compare rules": (
        "chainfl simulate --preset quick --rule mean --run runs/mean",
        "chainfl simulate --preset quick --rule median --run runs/median",
        "chainfl compare runs/mean runs/median --html compared.html",
        "chainfl rules",
        "chainfl experiment list",
        "chainfl simulate --list",
    ),
    "numbers": (
        """echo '{"s": 20, "values": [0.5, -0.25, 1e-6]}' | chainfl compute root --json""",
        """echo '{"distances": [[0, 16, 100], [16, 0, 36], [100, 36, 0]], "internals": [true, true, false], """
        """"budget": 1}' | chainfl compute weights --json""",
        "chainfl keys new deployer.json --password-file pass",
    ),
    "an app": (
        "chainfl new digits",
        "chainfl app check digits/app.py",
        "chainfl simulate --app digits/app.py --participants 8 --committee 3 --rounds 3",
    ),
    "guests": ("chainfl task admit members.txt",),
    "a first look": ("chainfl simulate --preset quick", "chainfl simulate --preset selfish-small"),
}

# Lines that other tests type, as they stand or with the addresses of their own chain.
ELSEWHERE = {
    "README.md#Take part with your own data": "tests/integration/test_readme.py",
    "README.md#Train what you like": "tests/integration/test_apps.py",
    "docs/campaigns.md": "tests/sim/test_campaigns.py",
    "docs/flower.md": "tests/integration/test_flower.py",
    "docs/fuzzing.md": "tests/scripts/test_fuzzing.py",
    "docs/models.md": "tests/integration/test_tutorials.py",
    "docs/mutants.md": "tests/scripts/test_mutants.py",
    "docs/selfish.md": "tests/integration/test_demo.py tests/devnet/test_selfish.py",
}

# Why the others are typed by nobody. The options of each exist all the same: tests/test_docs.py.
REASONS = (
    (r"…|https://|\bFILE\b|0xCOLD|<", "names an address, a hash or a file that the reader has"),
    (
        r"^pip install",
        "installs from a registry; tests/test_wheel.py and scripts/try_wheel install the wheel",
    ),
    (r"^scripts/(demo|test|mutants|fuzz)|^just ", "is what runs this test, or runs for hours"),
    (r"node\.toml|127\.0\.0\.1:8[05]|guest\.env|\.venv/bin/activate", "acts on a chain that the reader has"),
    (
        r"^chainfl (serve|watch|demo|devnet|stake|node) ",
        "goes on running, or acts on a chain that the reader has",
    ),
    (r"^chainfl task create$", "a word of a drawing"),
    (
        r"--size|runs/experiments|--preset (3-LH|sabfl-small|selfish-fashion)|--data |runs/3-lh",
        "takes data sets or minutes to hours",
    ),
    (r"--participants 40|examples/private|--replay trace\.json|selfish/", "takes minutes, or files of a run"),
)


def lines_of(page: str) -> list[str]:
    """The commands of a page's blocks without a language, without what stands beside them."""
    blocks = [code for language, code in FENCED.findall(PAGES[page]) if not language]
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    cut = (re.split(r"\s{2,}#|\s{2,}|\s# ", line.strip())[0].strip() for line in lines)
    return [line for line in cut if re.match(r"(chainfl|scripts/|pip|echo|python|just|git|\. )", line)]


def commands() -> list[tuple[str, str]]:
    """Every command with its page, but those of pages that are tested whole."""
    return [
        (page, line)
        for page in PAGES
        if not any(page.startswith(each) for each in WHOLE)
        for line in lines_of(page)
    ]


def test_every_command_of_a_code_block_is_typed_by_a_test_or_it_is_said_why_not() -> None:
    here = {line for script in HERE.values() for line in script}
    left = [
        (page, line)
        for page, line in commands()
        if line not in here
        and page not in ELSEWHERE
        and not any(re.search(pattern, line) for pattern, _ in REASONS)
    ]

    assert len(commands()) > 80
    assert left == []


def test_what_is_typed_here_stands_in_a_page() -> None:
    shown = {line for _, line in commands()}

    assert [line for script in HERE.values() for line in script if line not in shown] == []


@pytest.mark.parametrize("where", sorted({*WHOLE.values(), *" ".join(ELSEWHERE.values()).split()}))
def test_the_tests_that_type_the_others_are_there(where: str) -> None:
    assert (ROOT / where).exists()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder as a checkout is after set-up, but for the code, with the list of docs/guest-lists.md."""
    (tmp_path / ".venv").symlink_to(sys.prefix)
    (tmp_path / "pass").write_text("secret\n")
    (members,) = (
        code for _, code in FENCED.findall(PAGES["docs/guest-lists.md"]) if code.startswith("# members.txt")
    )
    (tmp_path / "members.txt").write_text(members)
    return tmp_path


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", HERE)
def test_commands_of_pages_do_what_they_say(name: str, folder: Path) -> None:
    done = typed("\n".join(HERE[name]), folder)

    assert done.returncode == 0, done.stderr[-2000:]
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("page", "number"), [("README.md#Compare rules, no chain needed", 0), ("docs/python.md", 0)]
)
def test_python_of_pages_runs(page: str, number: int, folder: Path) -> None:
    code = [text for language, text in FENCED.findall(PAGES[page]) if language == "python"][number]
    assert typed("chainfl new digits", folder).returncode == 0

    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=480, check=False
    )

    assert done.returncode == 0, done.stderr[-2000:]
