PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup demo test clean

setup: .venv/ready

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make setup PYTHON=python3.11")'
	@echo "setting up .venv: a few minutes the first time"
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[test]'
	touch $@

demo: setup
	$(BIN)/ladp demo --out demo

test: setup
	$(BIN)/python -m pytest

clean:
	rm -rf .venv demo build dist src/*.egg-info
