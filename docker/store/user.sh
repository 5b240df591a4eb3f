#!/bin/sh
# Makes the users of the store, or gives them today's keys and rights; any number of times: that of the jobs, which reads
# and writes, and that of Airflow's API server, whose page only reads.
# Secrets come from the environment and go by standard input, never as arguments, which everybody on the machine can list.
set -eu

user() { # key, secret, name of the policy, its file
  test -n "$1" && test -n "$2"
  printf '%s\n%s\n' "$1" "$2" | mc --quiet admin user add store
  mc --quiet admin policy create store "$3" "$(dirname "$0")/$4"
  # To attach what is attached already is an error. The image of `mc` has neither grep nor sed.
  mc --quiet admin policy attach store "$3" --user "$1" || {
    case "$(mc admin user info store "$1" --json)" in
      *"\"policyName\":\"$3\""* | *"\"policyName\": \"$3\""*) ;;
      *) return 1 ;;
    esac
  }
}

user "$AWS_ACCESS_KEY_ID" "$AWS_SECRET_ACCESS_KEY" sluicegate policy.json
user "$S3_READER_KEY" "$S3_READER_SECRET_KEY" sluicegate-reader reader.json
