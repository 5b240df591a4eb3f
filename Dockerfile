# One image for Airflow and for Spark: the same Python, the same jars, nothing fetched when it runs.
#
#   docker build -t sluicegate .
#
# BASE is any Debian with Python 3.11 to 3.13; name it by digest where builds must not change with its tag.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS base
# tini passes signals on and reaps what jobs leave behind, also where nobody asks for `init: true`; procps is for
# Spark's own scripts. Debian keeps one version of a package, so a build that named one would fail after its next security
# update; hence the exception from the linter's rule.
# hadolint ignore=DL3008
RUN apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    openjdk-17-jre-headless procps tini >/dev/null \
 && rm -rf /var/lib/apt/lists/* /var/log/apt /var/log/dpkg.log /var/cache/ldconfig/aux-cache
ENV HOME=/home/sluicegate \
    PATH=/opt/sluicegate/.venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
WORKDIR /opt/sluicegate

# What needs pip, uv and the network stays behind in here.
FROM base AS build
# Whose repository the jars come from; any that is laid out as Maven's.
ARG SLUICEGATE_MAVEN=https://repo1.maven.org/maven2
ENV UV_COMPILE_BYTECODE=1 \
    UV_LINK_MODE=copy \
    UV_NO_CACHE=1 \
    UV_PYTHON_DOWNLOADS=never \
    UV_SYSTEM_CERTS=true
COPY pyproject.toml uv.lock README.md LICENSE ./
COPY scripts/setup.py scripts/
COPY sluicegate/__init__.py sluicegate/errors.py sluicegate/escapes.py sluicegate/project_file.py sluicegate/settings.py sluicegate/
COPY sluicegate/suggestions.py sluicegate/
COPY sluicegate/spark/__init__.py sluicegate/spark/jars.py sluicegate/spark/
RUN python -m scripts.setup --packages airflow metrics openlineage postgres sqs
COPY sluicegate sluicegate
COPY spark_jobs spark_jobs
# The jars; with --build-arg S3=1 those for s3a://, with KAFKA=1 those for Kafka, too.
ARG S3
ARG KAFKA
RUN .venv/bin/python -m compileall -q sluicegate spark_jobs \
 && .venv/bin/sluicegate jars --catalog ${S3:+--s3} ${KAFKA:+--kafka} --no-archive
# The JVM's class-data archive, by a run of this pipeline. Another definition that changes makes no layer of these anew.
COPY pipelines/heart_rate pipelines/heart_rate
COPY data/heart_rate data/heart_rate
RUN .venv/bin/sluicegate jars --catalog ${S3:+--s3} ${KAFKA:+--kafka}
# The settings that the cluster's processes, and people's spark-sql, find.
COPY docker docker
RUN .venv/bin/python -m docker.defaults

FROM base
# Group 0 may write where the user may, so that any user of that group will do: the one who owns the landed files.
RUN useradd --uid 50000 --gid 0 --create-home --home-dir /home/sluicegate --shell /usr/sbin/nologin sluicegate \
 && install -d -o sluicegate -g 0 -m 2775 /data /data/lake /data/landing /data/metrics /data/objects /events /logs /scratch \
 && chmod g=u /home/sluicegate
# What changes seldom first: a layer that is there already is neither stored nor sent again.
COPY --from=build /opt/sluicegate/.venv .venv
COPY --from=build /opt/sluicegate/.jars .jars
COPY --from=build /opt/sluicegate/docker docker
COPY --from=build /opt/sluicegate/sluicegate sluicegate
COPY --from=build /opt/sluicegate/spark_jobs spark_jobs
COPY dags dags
COPY pipelines pipelines
COPY data data
COPY pyproject.toml README.md LICENSE ./
# Of glibc's arenas one for each thread and core would be kept: a hundred megabytes and more of a JVM's memory.
ENV AIRFLOW_HOME=/tmp/airflow \
    MALLOC_ARENA_MAX=2 \
    AIRFLOW__CORE__DAGS_FOLDER=/opt/sluicegate/dags \
    AIRFLOW__CORE__LOAD_EXAMPLES=False \
    AIRFLOW__LOGGING__BASE_LOG_FOLDER=/logs \
    AIRFLOW__LOGGING__DAG_PROCESSOR_CHILD_PROCESS_LOG_DIRECTORY=/logs/dag_processor \
    SLUICEGATE_LAKE=/data/lake \
    SLUICEGATE_LANDING=/data/landing \
    SLUICEGATE_PIPELINES=/opt/sluicegate/pipelines
USER 50000:0
# With -s it reaps orphans below an init of Docker's, too, and says nothing of that in each service's log.
ENTRYPOINT ["tini", "-s", "-g", "--"]
# Of a container that runs no service of ours; docker-compose.yaml has a better one for each service.
HEALTHCHECK --interval=60s --timeout=30s CMD ["python", "-c", "import sluicegate"]
CMD ["sluicegate", "--help"]
