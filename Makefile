# Two commands do everything: `make figures` and `make test`. Each sets up .venv first, once.

PYTHON ?= python3
PROFILE ?= paper
VENV := .venv
RUN := $(VENV)/bin/python
READY := $(VENV)/.ready

.PHONY: figures test lab clean

figures: $(READY)
	$(RUN) -m pfpne.paper figures --profile $(PROFILE)

test: $(READY)
	$(RUN) -m pytest

lab: $(READY)
	$(RUN) -m jupyterlab notebooks

# The stamp is removed first and made last, so an interrupted set-up does not count; without it we start afresh.
$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "pfpne needs Python 3.11 or newer, and $(PYTHON) is not. Say where one is: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || \
	  { echo "$(PYTHON) lacks its venv module: install it (Debian, Ubuntu: apt install python3-venv)." >&2; exit 1; }
	@test -e $@ || $(PYTHON) -m venv --clear $(VENV)
	@rm -f $@
	$(RUN) -m pip install --quiet --disable-pip-version-check --no-deps -r requirements.lock
	$(RUN) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

# What is made and not committed: stored runs, executed notebooks, other figures than the paper profile's.
clean:
	rm -rf results executed figures-smoke figures-custom .pytest_cache .hypothesis
	find pfpne tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
