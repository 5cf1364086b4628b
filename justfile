# Shortcuts; everything here can be typed without just. `just` lists them.

# list the recipes
default:
    @just --list

# make .venv and contracts/node_modules ready
setup:
    scripts/setup

# play the demonstration
demo *arguments:
    scripts/demo {{arguments}}

# run every check; --fast, --deep, --only lint
test *arguments:
    scripts/test {{arguments}}

# what continuous integration runs
ci *arguments:
    .ci/run {{arguments}}

# format Python and Solidity
format: setup
    .venv/bin/ruff check --fix .
    .venv/bin/ruff format .
    cd contracts && "$(../.venv/bin/python -c 'from chainfl import tools; print(tools.require("forge"))')" fmt

# compile the contracts into the package
contracts:
    scripts/contracts

# make generated pages and pictures anew, then build the site into site/
docs: setup
    .venv/bin/python -m scripts.make_docs
    .venv/bin/mkdocs build --strict

# build wheel and source archive into dist/
wheel: setup
    .venv/bin/python -m hatchling build

# measure; see scripts/bench --help
bench *arguments:
    scripts/bench {{arguments}}
