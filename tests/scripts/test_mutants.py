"""scripts/mutants itself: its rows fit the code, and what it says of a mutant is so. `scripts/test --deep` runs it."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from chainfl.errors import InputError
from scripts.mutation import __main__ as command
from scripts.mutation import nets, table
from scripts.mutation.table import Edit, Mutant, Shape, StaleRowError, replaced, span_of
from scripts.mutation.weave import coinbase, woven

CONTRACTS, PYTHON = table.load(table.CONTRACTS), table.load(table.PYTHON)


def mutant(number: int, *edits: Edit, net: str = "rules", from_both_sides: bool = False) -> Mutant:
    """A row of a table."""
    return Mutant(number, f"m{number}", "kind", "why", net, edits, from_both_sides=from_both_sides)


# The tables


def test_there_are_mutants_of_many_kinds_in_every_part() -> None:
    assert len(CONTRACTS) >= 40
    assert len(PYTHON) >= 30
    assert len({each.kind for each in (*CONTRACTS, *PYTHON)}) >= 15
    parts = {name.split("/")[0] for name in table.files_of(PYTHON)}
    assert parts == {"protocol", "roles", "execution.py"}


@pytest.mark.parametrize("file", table.files_of(CONTRACTS))
def test_every_row_fits_its_contract(file: str) -> None:
    text = (table.SOURCES[table.CONTRACTS] / file).read_text(encoding="utf-8")

    assert woven(text, file, CONTRACTS) != text


@pytest.mark.parametrize("each", PYTHON, ids=lambda each: each.name)
def test_every_row_fits_its_module_and_changes_what_it_does(each: Mutant) -> None:
    for file in table.files_of([each]):
        text = (table.SOURCES[table.PYTHON] / file).read_text(encoding="utf-8")
        changed = replaced(text, [edit for edit in each.edits if edit.file == file])

        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(text))


def test_every_row_names_a_net_and_says_why_it_matters() -> None:
    for rows, known in ((CONTRACTS, nets.CONTRACT_NETS), (PYTHON, nets.PYTHON_NETS)):
        assert {each.net for each in rows} <= {net.name for net in known}
        assert all(each.why.endswith(".") for each in rows)


@pytest.mark.parametrize("net", [*nets.CONTRACT_NETS, *nets.PYTHON_NETS], ids=lambda net: net.name)
def test_every_net_names_tests_that_are_there(net: nets.Net) -> None:
    files = [name for name in net.tests if name.startswith("tests/")]

    assert net.is_forge or files
    assert all((table.ROOT / name).exists() for name in files)


@pytest.mark.parametrize(
    "row",
    [
        'name = "a"\nkind = "k"\nwhy = "w."\nnet = "n"\nfile = "f"\nat = "x"',
        'name = "a"\nkind = "k"\nwhy = "w."\nnet = "n"\nfile = "f"\nat = "x"\nto = "y"\nextra = 1',
        'name = "a"\nkind = "k"\nwhy = "w."\nfile = "f"\nat = "x"\nto = "y"',
    ],
    ids=["no `to`", "unknown field", "no net"],
)
def test_a_row_that_is_not_complete_is_refused(tmp_path: Path, row: str) -> None:
    path = tmp_path / "rows.toml"
    path.write_text(f"[[mutant]]\n{row}\n")

    with pytest.raises(InputError, match="mutant a"):
        table.load(path)


def test_two_rows_of_one_name_are_refused(tmp_path: Path) -> None:
    row = '[[mutant]]\nname = "a"\nkind = "k"\nwhy = "w."\nnet = "n"\nfile = "f"\nat = "x"\nto = "y"\n'
    path = tmp_path / "rows.toml"
    path.write_text(row * 2)

    with pytest.raises(InputError, match="two mutants are named 'a'"):
        table.load(path)


# Search and replace


def test_only_the_marked_part_is_replaced() -> None:
    assert replaced("if a < b: c", [Edit("f", "if «a < b»:", "a <= b")]) == "if a <= b: c"
    assert replaced("x; y; z", [Edit("f", "y;", "")]) == "x;  z"


@pytest.mark.parametrize("at", ["«a» - 1", "a + 2", "«a + 1"], ids=["gone", "twice", "not closed"])
def test_a_piece_that_is_not_there_once_is_refused(at: str) -> None:
    with pytest.raises(StaleRowError):
        span_of("a + 1; a + 2; a + 2", Edit("f", at, "b"))


def test_mutants_are_chosen_by_the_coinbase() -> None:
    expression = mutant(1, Edit("f", "return «a»;", "b"))
    statement = mutant(2, Edit("f", "g();", "", Shape.STATEMENT))
    yul = mutant(3, Edit("f", "let x := «y»", "z", Shape.ASSEMBLY))

    assert woven("return a;", "f", [expression]) == "return (block.coinbase == address(1) ? (b) : (a));"
    assert woven("g();", "f", [statement]) == "if (block.coinbase == address(2)) {  } else { g(); }"
    assert woven("let x := y", "f", [yul]) == (
        "let x := add(mul(eq(coinbase(), 3), z), mul(iszero(eq(coinbase(), 3)), y))"
    )
    assert coinbase(3) == "0x0000000000000000000000000000000000000003"


def test_mutants_of_the_same_piece_share_it_and_others_may_not_overlap() -> None:
    one, two = mutant(1, Edit("f", "a + b", "a")), mutant(2, Edit("f", "a + b", "b"))

    both = woven("a + b", "f", [one, two])

    assert both.index("address(2) ? (b)") < both.index("address(1) ? (a)") < both.index("(a + b)")
    with pytest.raises(StaleRowError, match="overlap"):
        woven("a + b", "f", [one, mutant(3, Edit("f", "«a» +", "c"))])


# Verdicts


def test_a_mutant_is_caught_by_one_net_or_where_that_is_asked_from_both_sides() -> None:
    asked = nets.CONTRACT_NETS
    plain = command.Result(mutant(1), "contracts", {"unit": None, "rules": "test_a"})
    missed = command.Result(mutant(1), "contracts", {"unit": None, "rules": None})
    one_side = command.Result(mutant(1, from_both_sides=True), "contracts", {"rules": "a", "attacks": "b"})
    both = command.Result(mutant(1, from_both_sides=True), "contracts", {"invariants": "a", "attacks": "b"})

    assert plain.is_caught(asked)
    assert plain.found_by == ["rules"]
    assert not missed.is_caught(asked)
    assert not one_side.is_caught(asked)
    assert both.is_caught(asked)


def test_the_table_tells_found_from_missed_and_from_not_asked() -> None:
    result = command.Result(mutant(1), "contracts", {"unit": None, "rules": "test_a"})

    lines = command.markdown([result], nets.CONTRACT_NETS).splitlines()

    assert lines[0] == "| mutant | kind | maths | unit | rules | attacks | invariants |"
    assert lines[2] == "| m1 | kind |  | - | x |  |  |"


@pytest.mark.parametrize(
    ("output", "name"),
    [
        ("..F\nFAILED tests/a/test_b.py::test_c[1] - AssertionError\n1 failed", "test_c[1]"),
        ("[FAIL: NotATask(0x33)] test_allocate_reverts() (gas: 12)", "test_allocate_reverts"),
        (
            "[FAIL: other pay]\n\t[Sequence]\n\t\tcalldata=vote(uint256)\n invariant_x() (runs: 2)",
            "invariant_x",
        ),
        ("[FAIL: StakeTooLow(1, 1)] setUp() (gas: 0)", "setUp"),
        ("2 passed", None),
    ],
)
def test_the_first_test_that_fails_is_named(output: str, name: str | None) -> None:
    assert nets.first_failure(output) == name


def test_a_name_that_no_mutant_has_is_refused() -> None:
    assert command.main(["--list", "no-such-mutant"]) == InputError.exit_code


# The switch


def test_a_mutant_of_the_package_is_what_the_process_runs() -> None:
    asks = (
        "import dataclasses\n"
        "from scripts.mutation import switch, table\n"
        "rows = table.load(table.PYTHON)\n"
        "switch.switch_python(*table.pick(rows, ['py-target-is-never-met-exactly']))\n"
        "from chainfl.protocol.tally import is_target_reached\n"
        "from tests.protocol.scene import config\n"
        "print(is_target_reached(config(target=5), 5), is_target_reached(config(target=5), 4))\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", asks], cwd=table.ROOT, capture_output=True, text=True, timeout=60, check=True
    )

    assert done.stdout.split() == ["False", "True"]
