#!/bin/bash
# Makes the two databases, each with a user that can do nothing elsewhere. Runs once, when the volume is new.
# Passwords go by psql's standard input, never as arguments, which everybody on the machine can list.
set -euo pipefail
psql -v ON_ERROR_STOP=1 -q -U "${POSTGRES_USER:-postgres}" -d postgres <<SQL
\set airflow_password \`printenv AIRFLOW_DATABASE_PASSWORD\`
\set metastore_password \`printenv METASTORE_PASSWORD\`
CREATE USER airflow PASSWORD :'airflow_password';
CREATE USER metastore PASSWORD :'metastore_password';
CREATE DATABASE airflow OWNER airflow;
CREATE DATABASE metastore OWNER metastore;
REVOKE ALL ON DATABASE airflow FROM PUBLIC;
REVOKE ALL ON DATABASE metastore FROM PUBLIC;
SQL
