#!/bin/sh
# Makes the user of the store whose keys the jobs have, or gives it today's keys and rights; any number of times.
# Secrets come from the environment and go by standard input, never as arguments, which everybody on the machine can list.
set -eu
test -n "$AWS_SECRET_ACCESS_KEY"
printf '%s\n%s\n' "$AWS_ACCESS_KEY_ID" "$AWS_SECRET_ACCESS_KEY" | mc --quiet admin user add store
mc --quiet admin policy create store sluicegate "$(dirname "$0")/policy.json"
# To attach what is attached already is an error.
mc --quiet admin policy attach store sluicegate --user "$AWS_ACCESS_KEY_ID" ||
  mc admin user info store "$AWS_ACCESS_KEY_ID" --json | grep -q '"policyName":"sluicegate"'
