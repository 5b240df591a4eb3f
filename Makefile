# Each target says in its `##` comment what it does; `make` alone lists them.
.DEFAULT_GOAL := help
.PHONY: help setup try demo ui up down check fmt test-unit test-spark test-e2e test test-commands test-more test-release test-all test-chaos test-scale test-connect test-compose docs wording messages site packages bench clean

# The first Python of a version that fits, so that a machine whose python3 is newer or older needs no option.
# If none fits, scripts/setup.py says what to install.
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1 \
	&& echo $$python && exit; done; echo python3)
RUN := .venv/bin/python
CODE := $(wildcard sluicegate spark_jobs dags scripts bench)
ARGS ?=

help: ## list these targets
	@echo 'usage: make TARGET [NAME=VALUE]'
	@echo
	@awk -F ':[^#]*## ' '/^[a-z0-9-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' Makefile
	@echo
	@echo 'Start with `make try`. setup runs by itself where it is needed.'

# The class-data archive of the JVM takes a minute or two, and only Spark needs it.
LATER = $(if $(filter-out test-unit check fmt docs messages site packages,$(MAKECMDGOALS)),,--without-archive)

setup: ## make .venv and .jars as pinned; needs Python 3.11 to 3.13 and Java 17 or newer (S3=1, KAFKA=1: jars for s3a:// or Kafka too, KAFKA=test: with those of the broker of the tests; FORCE=1: every step again)
	@$(PYTHON) -m scripts.setup $(if $(S3),--s3) $(if $(KAFKA),--kafka) $(if $(FORCE),--force) $(LATER)
	@$(if $(filter test,$(KAFKA)),$(RUN) -m tests.support.kafka_broker)

try: setup ## land sample files, run the pipeline in one Spark, show gold (INPUT=DIR: your recordings and patients)
	@$(RUN) -m sluicegate.tools.demo --without-airflow $(if $(INPUT),--input "$(INPUT)")

demo: setup ## land sample files, run the pipeline in a real Airflow, show gold (INPUT=DIR: your recordings and patients)
	@$(RUN) -m sluicegate.tools.demo $(if $(INPUT),--input "$(INPUT)")

ui: setup ## the demo's Airflow with its web page, until Ctrl-C (WARM=1: with a Spark that stays warm for all jobs)
	@$(RUN) -m sluicegate.tools.demo --ui $(if $(filter-out 0,$(WARM)),--warm)

up: ## build the image and start the stack of docker-compose.yaml: Airflow, Spark, PostgreSQL (LAKE=DIR: tables in a folder; S3=1: on a store of objects; WARM=1: a warm Spark runs all jobs)
	@$(PYTHON) -m scripts.compose up $(if $(LAKE),--lake "$(LAKE)") $(if $(filter-out 0,$(S3)),--s3) $(if $(filter-out 0,$(WARM)),--warm)

down: ## stop that stack; its data stay
	@$(PYTHON) -m scripts.compose down

# The tests run a lake on S3, too, and read Kafka. What is set for a target is set for those that it needs: for setup.
test test-commands test-more test-spark test-connect test-e2e test-release test-all test-chaos test-scale: S3 = 1
test test-commands test-more test-spark test-connect test-e2e test-release test-all test-chaos test-scale: KAFKA = test

# Two processes, each with a Spark of its own: one Spark keeps little more than one core busy. The one that has done its
# half takes from what the other has left, so that none is idle at the end.
TWO := -n 2 --dist worksteal

# The folder that a target's tests are in, unless ARGS names files or folders: only these are imported.
folder = $(if $(filter tests/%,$(ARGS)),,$(1))

test-unit: setup ## while you work, three minutes: the tests without Spark (ARGS=tests/unit/landing: those of a package, in seconds)
	@$(RUN) -m pytest $(call folder,tests/unit) $(if $(filter tests/%,$(ARGS)),,$(TWO)) $(ARGS)

test: setup ## before every commit, half an hour: all unit tests, and each promise in Spark or by a whole command (ARGS="-k word": some of them)
	@$(RUN) -m pytest -m "not more and not release and not chaos and not compose and not scale" $(TWO) $(ARGS)

test-commands: setup ## what CI runs after that: README, the tutorial, the demo, real Airflows, S3, kills
	@$(RUN) -m pytest -m "more and e2e and not release and not chaos and not compose and not scale" $(TWO) $(ARGS)

test-more: setup ## before a change to how tables are filled, 42 minutes with test-commands: the promises at every point of a stop, and in more pipelines
	@$(RUN) -m pytest -m "more and spark and not release and not chaos and not compose and not scale" $(TWO) $(ARGS)

test-release: setup ## before a release, half an hour: further kinds, queries and pipelines, and long properties
	@$(RUN) -m pytest -m "release and not chaos and not compose and not scale" $(TWO) $(ARGS)

test-all: test test-commands test-more test-release ## the four above, one after the other: about two hours

test-chaos: setup ## before a change to how records are applied, an hour: long runs of stops and changes
	@$(RUN) -m pytest -m chaos --timeout 0 $(ARGS)

test-scale: setup ## before a release, hours: thousands of files, commits and ledger batches
	@$(RUN) -m pytest -m scale --timeout 0 --durations=0 --durations-min=1 $(ARGS)

test-compose: setup ## before a change to the stack, half an hour: its services with real files, and killed; needs Docker
	@$(RUN) -m pytest -m compose --timeout 0 -s $(ARGS)

test-connect: setup ## before a change for Spark Connect, half an hour: the tests of the layers through a server
	@SLUICEGATE_TESTS_ON=server $(RUN) -m pytest $(call folder,tests/spark) -m "not more and not release and not chaos" $(ARGS)

test-spark: setup ## the folder tests/spark alone: the layers, in Spark
	@$(RUN) -m pytest $(call folder,tests/spark) $(ARGS)

test-e2e: setup ## the folder tests/e2e alone: whole commands, spark-submit, Airflow, kills
	@$(RUN) -m pytest $(call folder,tests/e2e) -m "not compose" $(ARGS)

check: setup ## lint, formatting, types, figures of readability, directions of imports, the site's links, and what linters say of the image and of shell scripts
	@code=0; $(RUN) -m ruff check || code=1; $(RUN) -m ruff format --check || code=1; \
	$(RUN) -m mypy --strict $(CODE) || code=1; $(RUN) -m scripts.readability || code=1; .venv/bin/lint-imports --no-cache || code=1; $(SITE) || code=1; .venv/bin/hadolint Dockerfile || code=1; \
	.venv/bin/shellcheck .ci/run docker/*.sh || code=1; exit $$code

fmt: setup ## put the code into its format and mend what the linter can
	@$(RUN) -m ruff check --fix --exit-zero --quiet
	@$(RUN) -m ruff format

docs: setup ## write docs/reference, docs/pipeline.schema.json and the pictures of docs again, from the program's own objects
	@$(RUN) -m scripts.reference
	@$(RUN) -m scripts.diagrams
	@$(RUN) -m scripts.overview

wording: setup ## list phrases of messages and pages that deserve a review (ARGS=--messages: every message, to be read at once)
	@$(RUN) -m scripts.wording $(ARGS)

messages: setup ## write the messages of each package into tests/unit/PACKAGE/messages.txt again, which a test compares
	@$(RUN) -m scripts.messages

# The variable silences an advertisement for a successor of mkdocs-material.
SITE := NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --quiet --strict

packages: setup ## build wheel and source distribution into dist/, and try both in an empty environment
	@$(RUN) -m scripts.packages

site: setup ## build the documentation site into site/, and fail at a link that leads nowhere
	@$(SITE)
	@echo 'open site/index.html'

bench: setup ## measure this against rivals, case by case, into docs/bench (ARGS="--case files --scale full --input DIR")
	@.venv/bin/uv sync --frozen --inexact --group bench --quiet
	@$(RUN) -m bench $(ARGS)

# What runs and tools leave in this folder. Neither .venv nor .jars: they cost a download.
LEFT = $(wildcard lake lake-*/ landing landing-*/ .airflow spark-warehouse metastore_db derby.log dist \
	site .pytest_cache .mypy_cache .ruff_cache .hypothesis)

# What the stack keeps; asked only for `clean`, since Docker is slow to answer.
VOLUMES = $(if $(filter clean,$(MAKECMDGOALS)),$(shell $(PYTHON) -m scripts.compose volumes))

clean: ## delete the tables, the landed files, the demo's Airflow, the stack's volumes and all caches; asks first (YES=1: does not)
ifneq ($(strip $(LEFT)$(VOLUMES)),)
	@echo 'This deletes, with all that is in them:'
	@$(if $(LEFT),du -sh $(LEFT) | sed 's/^/  /')
	@$(foreach volume,$(VOLUMES),echo "        volume $(volume) of the stack";)
ifndef YES
	@printf 'Delete them? [y/N] '; read -r answer || echo; \
	case "$$answer" in y | Y | yes) ;; *) echo 'Nothing deleted (`make clean YES=1` does not ask).'; exit 1 ;; esac
endif
	@$(if $(VOLUMES),$(PYTHON) -m scripts.compose clean)
	@rm -rf $(LEFT)
endif
	@find . \( -name .venv -o -name .git \) -prune -o -name __pycache__ -type d -exec rm -rf {} +
	@echo 'Clean.'
