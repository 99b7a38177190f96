# The two commands of a fresh clone: make run SCENARIO=mixed, make test. Each makes .venv on first use (.ci/venv).
# GNU make 3.81 is enough (macOS); recipes are POSIX sh; no target has the checkout's path in it, which may hold spaces.
.DEFAULT_GOAL := help
.NOTPARALLEL:
.SUFFIXES:

# Nothing of the user's own Python comes in.
unexport PYTHONPATH PYTHONHOME PYTHONSTARTUP
export PYTHONNOUSERSITE := 1

python := .venv/bin/python
pytest := $(python) -m pytest
bench := PYTHONPATH=tests:tests/model $(python) -m bench
quick := not slow and not stress

# Values from the command line reach a recipe through its environment, so that no character in them is special;
# ARGS alone is put in as it is, for the shell to split.
export SCENARIO POLICY TRACE OUT
ARGS ?=

.PHONY: help setup run test slow theory stress bench bench-peers profile check format-check lint types format coverage clean tools

help: ## this list
	@echo 'make run SCENARIO=mixed    then: make test'
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' Makefile

setup: ## everything: the program, the test tools and every extra, in .venv (PYTHON=python3.12 chooses one)
	@sh .ci/venv all

run: ## one scenario, into results/NAME/: SCENARIO=name (or file.toml) [POLICY= TRACE= OUT= ARGS="--lang zh"]
	@[ -n "$$SCENARIO" ] || { echo 'which one? make run SCENARIO=mixed; all of them: ls scenarios' >&2; exit 2; }
	@sh .ci/venv core
	@set -- "$$SCENARIO" --output "$${OUT:-results/$$(basename -- "$$SCENARIO" .toml)}"; \
	[ -z "$$POLICY" ] || set -- "$$@" --policy "$$POLICY"; \
	[ -z "$$TRACE" ] || set -- "$$@" --set "workload.trace.path=$$TRACE"; \
	exec $(python) -m sim run "$$@" $(ARGS)

test: tools ## the tests, on all cores, a few minutes [ARGS="-k word"]
	@$(pytest) -n auto --dist loadgroup -m '$(quick)' $(ARGS)

slow: tools ## the tests that are too long for `make test` (at most 40 minutes)
	@$(pytest) -n auto --dist loadgroup -m slow $(ARGS) || [ $$? -eq 5 ]

theory: tools ## simulation against queueing theory, the whole of it (20 minutes of one core)
	@$(pytest) -n auto --dist loadgroup -m theory $(ARGS) || [ $$? -eq 5 ]

stress: tools ## the largest runs, one after another (by hand)
	@$(pytest) -m 'stress and not theory' $(ARGS) || [ $$? -eq 5 ]

bench: tools ## what runs cost: time, memory, counters; into results/ (by hand) [ARGS="--quick", "--only base-100k"]
	@$(bench) run $(ARGS)

bench-peers: tools ## side by side with AISimulate, installed in .bench/ on first use (by hand) [ARGS="--requests 2000"]
	@$(bench) peers $(ARGS)

profile: tools ## where a run of 10,000 requests spends its time; into results/ (by hand) [ARGS="--only base-1k"]
	@$(bench) profile $(ARGS)

check: format-check lint types test ## what must be clean before a commit: format, lint, types, tests

format-check: tools ## is everything formatted?
	@$(python) -m ruff format --check .

lint: tools ## ruff's rules
	@$(python) -m ruff check .

types: tools ## mypy, strict
	@$(python) -m mypy

format: tools ## format, and mend what ruff can mend
	@$(python) -m ruff check --fix-only .
	@$(python) -m ruff format .

coverage: tools ## branch coverage of sim/engine, sim/policies and sim/analysis: at least 95 % of each
	@$(pytest) -n auto --dist loadgroup -m '$(quick)' --cov --cov-report= $(ARGS)
	@low=0; for part in engine policies analysis; do \
	  $(python) -m coverage report --include="sim/$$part/*" --fail-under=95 || low=1; \
	done; exit $$low

clean: ## remove .venv and all caches (results stay)
	@rm -rf .venv .venv.lock .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache .hypothesis .bench .benchmarks build dist
	@find sim tests -name __pycache__ -type d -prune -exec rm -rf {} +

tools:
	@sh .ci/venv test
