"""Every number of the package at which it does something else, and the test that crosses it.

Faults live at limits that no test reaches: a part that is dropped once there are 50,000 files, say. So each constant is
in one of two lists. ``CROSSED`` names the test that sets it low, by a setting or ``monkeypatch``, and looks one below
it, at it and one above it. ``EXEMPT`` says why there is nothing to cross.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import sluicegate
from tests.conftest import ROOT

pytestmark = pytest.mark.unit

PACKAGE = Path(sluicegate.__file__).parent

# What makes a number of numbers.
MADE_BY = ("timedelta", "Decimal", "int", "float")

TIME = "a time: it says how long is waited or how often is looked, and no result depends on it"
SHAPE = "the shape of something, not a limit: with another number other things would be written or read"
LOOKS = "how much people are shown; nothing is decided by it"
SAMPLE = "of made-up data"

CROSSED: dict[str, str] = {
    "jobs.warm.FILES_PART": "tests/unit/launch/test_warm_spark.py::test_files_are_many_from_FILES_PART_of_the_limit",
    "jobs.warm.SHORT_BYTES": "tests/unit/launch/test_warm_spark.py::"
    "test_memory_is_short_below_SHORT_BYTES_and_SHORT_PART",
    "jobs.warm.SHORT_PART": "tests/unit/launch/test_warm_spark.py::"
    "test_memory_is_short_below_SHORT_BYTES_and_SHORT_PART",
    "launch.warm_spark.LONGEST_FOLDER": "tests/unit/launch/test_warm_spark.py::"
    "test_a_folder_longer_than_LONGEST_FOLDER_is_refused",
    "launch.warm_spark.LONGEST_MESSAGE": "tests/unit/launch/test_warm_spark.py::"
    "test_a_message_of_more_than_LONGEST_MESSAGE_is_refused",
    "lake.damage.checksums.AT_ONCE": "tests/unit/lake/test_changed_files.py::"
    "test_files_of_more_than_AT_ONCE_checksums_are_compared",
    "lake.damage.damages.LONGEST": "tests/unit/lake/test_damage.py::test_data_files_of_a_long_entry_are_not_looked_at",
    "lake.damage.damages.SHORTEST": "tests/unit/lake/test_damage.py::test_short_entries_are_read",
    "lake.damage.whole.REMEMBERED": "tests/unit/lake/test_damage.py::test_a_process_remembers_up_to_REMEMBERED_commits",
    "bronze.text.decoded_files.LEFT_OVER": "tests/unit/bronze/text/test_decoded_files.py::"
    "test_copies_of_a_killed_run_are_removed_after_LEFT_OVER",
    "bronze.text.decoded_files.SMALL": "tests/unit/bronze/text/test_decoded_files.py::"
    "test_files_of_more_than_SMALL_bytes_are_decoded_by_executors",
    "bronze.text.excerpts.LONGEST_HEAD": "tests/unit/bronze/text/test_excerpts.py::"
    "test_the_first_record_has_to_end_in_LONGEST_HEAD_characters",
    "bronze.text.text_decoder.DEEPEST": "tests/unit/bronze/text/test_text_decoder.py::"
    "test_json_of_more_than_DEEPEST_levels_is_corrupt",
    "airflow.page.forms.LONGEST": "tests/unit/airflow/page/test_app.py::test_what_is_no_form_of_the_page_is_refused",
    "flow.verification.proofs.WHOLE_AFTER": "tests/unit/witness/test_proved_files.py::"
    "test_a_proof_that_may_not_hold_any_more_is_void",
    "witness.comparison.AHEAD": "tests/unit/witness/test_landed_files.py::"
    "test_up_to_AHEAD_missing_records_are_told_apart_from_changed_ones",
    "witness.comparison.UNMATCHED": "tests/unit/witness/test_landed_files.py::"
    "test_a_record_that_cannot_be_decoded_may_have_its_row_anywhere",
    "witness.comparison.HELD": "tests/unit/witness/test_landed_files.py::"
    "test_up_to_AHEAD_missing_records_are_told_apart_from_changed_ones",
    "witness.values.PRINTED_DIGITS": "tests/unit/witness/test_landed_files.py::"
    "test_a_DOUBLE_is_the_number_that_landed_and_not_the_nearest_one",
    "witness.values.SKIPS_FROM": "tests/unit/witness/test_landed_files.py::"
    "test_a_DOUBLE_is_the_number_that_landed_and_not_the_nearest_one",
    "witness.landed_files.BLOCK": "tests/unit/witness/test_landed_files.py::"
    "test_rows_of_more_than_IN_MEMORY_are_sorted_outside_of_memory",
    "witness.landed_files.IN_MEMORY": "tests/unit/witness/test_landed_files.py::"
    "test_rows_of_more_than_IN_MEMORY_are_sorted_outside_of_memory",
    "lake.discards.ATTEMPTS": "tests/unit/lake/test_discards.py::test_a_race_that_is_lost_ATTEMPTS_times_is_reported",
    "launch.discard.LONGEST_NOTE": "tests/unit/cli/repairing/test_discard.py::"
    "test_a_note_has_up_to_LONGEST_NOTE_characters",
    "definition.dag_ids.LONGEST": "tests/unit/definition/test_dag_ids.py::test_any_folder_has_ids_that_airflow_takes",
    "definition.pipeline.airflow.LONGEST": "tests/unit/airflow/dags/test_arguments.py::"
    "test_what_a_column_of_airflows_database_does_not_hold_is_a_mistake",
    "definition.pipeline.airflow.MOST": "tests/unit/airflow/dags/test_arguments.py::"
    "test_what_a_column_of_airflows_database_does_not_hold_is_a_mistake",
    "definition.tables.silver.BATCH_BYTES": "tests/unit/flow/test_parts.py::"
    "test_the_definition_says_how_much_a_batch_takes_in",
    "dashboard.batches.NEWEST": "tests/unit/dashboard/test_dashboard.py::"
    "test_the_newest_batches_are_read_from_the_newest_files",
    "dashboard.batches.OF_A_TABLE": "tests/unit/dashboard/test_dashboard.py::"
    "test_a_table_has_batches_that_the_newest_of_its_pipeline_lack",
    "dashboard.days.SHOWN": "tests/unit/dashboard/test_dashboard.py::test_a_calendar_has_SHOWN_days",
    "dashboard.find.MOST": "tests/unit/dashboard/test_dashboard.py::test_search_finds_tables_and_columns_best_first",
    "dashboard.ledger_files.FEW": "tests/unit/dashboard/test_dashboard.py::"
    "test_up_to_FEW_entries_all_states_are_counted",
    "dashboard.ledger_files.PAGE": "tests/unit/dashboard/test_dashboard.py::"
    "test_files_newest_first_and_a_page_at_a_time",
    "dashboard.one_table.SAMPLE_COLUMNS": "tests/unit/dashboard/test_dashboard.py::"
    "test_of_many_columns_a_sample_has_some",
    "dashboard.overview.LATE_AFTER": "tests/unit/dashboard/test_dashboard.py::"
    "test_a_pipeline_is_late_when_its_schedule_wanted_several_runs",
    "dashboard.run_details.UNUSUAL": "tests/unit/dashboard/test_dashboard.py::test_a_run_is_unusual_above_a_share",
    "monitor.event_log.BREAK": "tests/unit/dashboard/test_dashboard.py::"
    "test_batches_of_commands_are_of_one_run_until_a_longer_break_or_an_earlier_layer",
    "dashboard.source.REMEMBERED": "tests/unit/dashboard/test_dashboard.py::test_memory_has_no_more_than_REMEMBERED",
    "spark_sql.analysis.checked_expressions.SHOWN": "tests/unit/spark_sql/analysis/test_queries.py::"
    "test_SHOWN_columns_are_listed_once_and_all_are_counted",
    "spark_sql.types.MOST_DIGITS": "tests/unit/spark_sql/test_types.py::test_a_decimal_has_MOST_DIGITS",
    "airflow.sensors.sqs.AT_ONCE": "tests/unit/airflow/sensors/test_sqs.py::"
    "test_messages_are_taken_out_AT_ONCE_at_a_time",
    "landing.moves.clean_source.BATCH": "tests/unit/landing/moves/test_clean_source.py::"
    "test_files_are_taken_away_in_parts_of_BATCH",
    "landing.glance.MOST": "tests/unit/landing/test_glance.py::"
    "test_it_looks_at_MOST_files_of_the_folder_and_of_the_ledger",
    "landing.ledger_index.AT_ONCE": "tests/unit/landing/test_file_status.py::"
    "test_files_are_looked_up_in_parts_of_AT_ONCE",
    "lake.tables.MANY_FILES": "tests/unit/lake/commits/test_compaction.py::"
    "test_files_are_put_together_once_there_are_MANY_FILES",
    "landing.intake.ATTEMPTS": "tests/unit/landing/test_file_status.py::test_discoveries_give_up_after_ATTEMPTS",
    "landing.kafka_ledger.ATTEMPTS": "tests/unit/landing/test_kafka_ledger.py::test_a_run_gives_up_after_ATTEMPTS",
    "landing.file_status.AT_ONCE": "tests/unit/landing/test_file_status.py::"
    "test_outcomes_of_many_files_are_made_out_in_parts",
    "storage.listings.AT_ONCE": "tests/unit/storage/test_filesystems.py::test_a_listing_is_made_in_parts_of_AT_ONCE",
    "airflow.operators.reconcile.RECORDS": "tests/unit/airflow/operators/test_reconcile.py::"
    "test_up_to_a_limit_each_record_is_looked_for",
    "monitor.verify_kafka.AT_ONCE": "tests/unit/monitor/test_verify_kafka.py::"
    "test_rows_are_read_by_ledger_batches_of_AT_ONCE_offsets",
    "channel.EMPTIED_AT": "tests/unit/test_channel.py::test_the_file_of_a_long_run_does_not_grow",
    "console.LONG": "tests/unit/cli/test_watching.py::test_time_left_is_said_of_what_is_LONG",
    "monitor.alerts.DAY": "tests/unit/monitor/test_alerts.py::test_what_came_before_the_last_day_does_not_count",
    "landing.chosen.skip.SHOWN": "tests/unit/landing/chosen/test_skip.py::"
    "test_the_preview_names_the_newest_file_and_the_first_ten",
    "monitor.verify.SHOWN": "tests/unit/monitor/test_status.py::test_so_many_records_are_named_and_all_are_counted",
    "definition.tables.bronze.LARGEST_RECORD": "tests/unit/bronze/test_file_sizes.py::"
    "test_no_record_may_be_longer_than_an_array_of_java",
    "bronze.text.csv_check.BLOCK": "tests/unit/bronze/text/test_csv_records.py::test_a_quote_is_seen_in_any_BLOCK",
    "bronze.text.csv_check.SAMPLE": "tests/unit/bronze/text/test_csv_records.py::"
    "test_the_usual_number_of_values_is_that_of_SAMPLE_lines",
    "bronze.text.csv_files.MOST_BYTES": "tests/unit/bronze/text/test_csv_records.py::"
    "test_a_file_of_more_than_MOST_BYTES_fails_with_its_line",
    "tools.scaffold.sniff.CHECKED": "tests/unit/tools/test_scaffold.py::"
    "test_all_lines_of_files_of_up_to_CHECKED_bytes_are_looked_at",
    "tools.scaffold.sniff.SPLIT_CHARACTERS": "tests/unit/tools/test_scaffold.py::"
    "test_lines_in_doubt_are_split_up_to_SPLIT_CHARACTERS",
    "spark.executors.FEW": "tests/unit/spark/test_executors.py::test_few_files_start_no_job",
    "bronze.file_sizes.LONGEST_DIRECTORY": "tests/unit/bronze/test_file_sizes.py::"
    "test_a_directory_of_more_than_LONGEST_DIRECTORY_bytes_is_refused",
    "bronze.file_sizes.BLOCK": "tests/unit/bronze/test_file_sizes.py::test_a_line_goes_on_from_block_to_block",
    "tools.scaffold.suggest.MOST_CANDIDATES": "tests/unit/tools/test_scaffold.py::"
    "test_keys_are_those_that_all_rows_prove",
    "tools.scaffold.all_rows.MOST_ARRAY": "tests/unit/tools/test_scaffold.py::"
    "test_no_key_is_proved_by_some_of_the_rows",
    "tools.scaffold.all_rows.MOST_BYTES": "tests/unit/tools/test_scaffold.py::"
    "test_no_key_is_proved_by_some_of_the_rows",
    "tools.scaffold.all_rows.MOST_ROWS": "tests/unit/tools/test_scaffold.py::test_no_key_is_proved_by_some_of_the_rows",
    "jobs.layer_job.SIDE_BY_SIDE": "tests/unit/jobs/test_parallel.py::"
    "test_a_job_fills_no_more_tables_at_a_time_than_it_may",
    "flow.streaming.delivery.FEW_FILES": "tests/spark/silver/side_tables/test_rescued.py::"
    "test_batches_with_and_without_misfits_in_turn",
    "frames.data_skipping.FEW_VALUES": "tests/spark/frames/test_data_skipping.py::"
    "test_rows_with_the_same_values_are_kept_for_FEW_VALUES_and_more",
    "gold.group_state.IN_A_FILE": "tests/spark/gold/test_group_state.py::"
    "test_groups_are_looked_for_in_some_files_of_more_than_IN_A_FILE",
    "gold.group_state.MOST_FILES": "tests/spark/gold/test_group_state.py::test_state_of_MOST_FILES_is_written_anew",
    "frames.data_skipping.MANY_ROWS": "tests/spark/silver/test_process.py::"
    "test_a_table_is_the_same_whether_its_keys_are_looked_for_nearby_or_everywhere",
    "monitor.estimate.LARGER": "tests/unit/monitor/test_estimate.py::test_what_a_run_would_do_with_ten_times_the_rows",
    "monitor.estimate.BYTES_COUNTED": "tests/unit/monitor/test_estimate.py::"
    "test_groups_are_counted_of_no_more_than_BYTES_COUNTED",
    "frames.record_ids.SENT": "tests/spark/silver/test_process.py::"
    "test_records_find_the_same_rows_whether_they_are_SENT_to_the_tasks_or_shuffled",
    "tools.migrate.create.LARGEST": "tests/unit/tools/test_migrate.py::"
    "test_a_source_may_have_as_many_bytes_as_the_LARGEST",
    "lake.exclusion.lease.LASTS": "tests/unit/lake/test_s3.py::"
    "test_a_lease_LASTS_so_long_from_when_it_was_taken_or_renewed",
    "maintenance.optimize_vacuum.SLACK": "tests/unit/maintenance/test_optimize_vacuum.py::"
    "test_files_stay_for_who_follows_a_commit_within_SLACK_of_when_they_may_go",
    "maintenance.optimize_vacuum.SMALL": "tests/spark/maintenance/test_optimize_vacuum.py::"
    "test_what_is_SMALL_to_who_looks_is_put_together_by_spark",
    "frames.data_skipping.RANGES": "tests/unit/frames/test_data_skipping.py::"
    "test_there_are_no_more_than_so_many_RANGES",
    "pii_key.SHORTEST": "tests/unit/test_pii_key.py::test_a_key_has_at_least_as_many_bytes_as_the_SHORTEST",
    "flow.table_report.SHOWN": "tests/unit/airflow/reporting/test_run_note.py::"
    "test_so_many_files_are_SHOWN_and_all_are_counted",
    "tools.scaffold.group_files.SAMPLED": "tests/unit/tools/test_scaffold.py::"
    "test_files_of_several_shapes_are_told_apart_if_all_are_SAMPLED",
    "tools.scaffold.json_wrapping.DEEPEST": "tests/unit/tools/test_scaffold_layouts.py::"
    "test_records_are_found_in_DEEPEST_objects_at_most",
    "tools.scaffold.nearly.ENOUGH": "tests/unit/tools/test_scaffold.py::test_a_share_is_few_from_ENOUGH_and_NEARLY_on",
    "tools.scaffold.nearly.NEARLY": "tests/unit/tools/test_scaffold.py::test_a_share_is_few_from_ENOUGH_and_NEARLY_on",
    "schema.same_numbers._PLACES": "tests/spark/schema/test_same_numbers.py::"
    "test_more_than_PLACES_binary_places_count_as_different",
    "tools.scaffold.infer_types.MOST_MISFITS": "tests/unit/tools/test_scaffold.py::"
    "test_no_more_than_MOST_MISFITS_different_values_are_mistakes",
    "tools.scaffold.suggest.SERIES": "tests/unit/tools/test_scaffold.py::"
    "test_the_days_of_a_long_series_are_keys_and_names_of_people_are_none",
    "tools.scaffold.suggest.FEWEST": "tests/unit/tools/test_scaffold.py::"
    "test_values_that_differ_in_FEWEST_rows_make_a_key_and_in_fewer_if_their_name_says_so",
    "tools.scaffold.sniff.BYTES": "tests/unit/tools/test_scaffold.py::"
    "test_a_file_of_no_more_than_so_many_BYTES_is_looked_at_to_its_end",
    "tools.scaffold.sniff.ROWS": "tests/unit/tools/test_scaffold.py::"
    "test_no_more_than_so_many_ROWS_of_a_file_are_looked_at",
    "spark.java.JAVA_AT_LEAST": "tests/unit/repository/test_setup.py::"
    "test_a_job_takes_any_java_from_JAVA_AT_LEAST_on_as_set_up_does",
    "monitor.streams.SILENCE": "tests/unit/jobs/test_continuous.py::test_a_run_elsewhere_is_dead_after_SILENCE",
    "airflow.timetable.MAX_BACKFILL_RUNS": "tests/unit/airflow/test_timetable.py::"
    "test_a_backfill_has_at_most_MAX_BACKFILL_RUNS",
    "airflow.reporting.openlineage.NEWEST": "tests/unit/airflow/reporting/test_openlineage.py::"
    "test_a_try_is_told_of_whole_though_it_has_more_commits_than_the_NEWEST",
    "airflow.reporting.run_note.LONGEST_LINE": "tests/unit/airflow/reporting/test_run_note.py::"
    "test_names_of_files_leave_room_for_other_tables_up_to_the_LONGEST_LINE",
    "airflow.reporting.run_note.LONGEST": "tests/unit/airflow/reporting/test_run_note.py::"
    "test_a_note_is_whole_up_to_the_LONGEST_and_has_whole_lines_beyond",
    "bronze.avro_header.LARGEST": "tests/unit/bronze/test_avro_header.py::"
    "test_a_head_has_no_text_longer_than_the_LARGEST",
    "bronze.ingest.WITNESSES": "tests/spark/landing/test_file_status.py::"
    "test_as_many_WITNESSES_are_asked_whether_trouble_is_of_the_machines",
    "tools.testing.row_diff.SHOWN": "tests/unit/tools/test_testing.py::"
    "test_so_many_rows_of_each_kind_are_SHOWN_and_all_are_counted",
    "gold.clustering.COUNTED": "tests/unit/spark_sql/test_order_by.py::"
    "test_a_table_is_clustered_by_columns_that_are_COUNTED",
    "gold.clustering.MOST": "tests/unit/spark_sql/test_order_by.py::test_a_table_is_clustered_by_MOST_columns_at_most",
    "jobs.continuous.FAILURES": "tests/unit/jobs/test_continuous.py::test_a_run_ends_by_as_many_FAILURES_in_a_row",
    "definition.pipeline.param_values.DIGITS": "tests/unit/definition/pipeline/test_params.py::"
    "test_a_decimal_has_DIGITS_at_most",
    "tools.contract.create.LARGEST": "tests/unit/tools/test_contract.py::test_a_contract_has_LARGEST_bytes_at_most",
    "flow.thresholds.FEW": "tests/spark/gold/test_refresh.py::"
    "test_state_is_made_again_at_most_where_more_than_FEW_rows_changed",
    "flow.refresh_cost.MARGIN": "tests/unit/flow/test_refresh_cost.py::"
    "test_another_technique_has_to_be_cheaper_by_the_MARGIN",
    "flow.refresh_cost.NEWEST": "tests/unit/flow/test_refresh_cost.py::test_runs_are_those_of_the_NEWEST_commits",
    "flow.refresh_cost.TRIAL_FACTOR": "tests/unit/flow/test_refresh_cost.py::"
    "test_a_full_recompute_that_no_run_tells_of_is_tried_within_REACH",
    "flow.refresh_cost.OWN_RUNS": "tests/unit/flow/test_refresh_cost.py::"
    "test_a_technique_that_is_slow_each_time_is_taken_for_it_from_OWN_RUNS_on",
    "flow.refresh_cost.LEAST": "tests/unit/flow/test_refresh_cost.py::test_a_factor_is_from_LEAST_to_MOST",
    "flow.refresh_cost.MOST": "tests/unit/flow/test_refresh_cost.py::test_a_factor_is_from_LEAST_to_MOST",
    "spark.table_reader.MOST_FILES": "tests/spark/spark/test_table_reader.py::"
    "test_more_files_than_MOST_FILES_or_bytes_than_MOST_BYTES_are_read_by_delta",
    "spark.table_reader.MOST_OBJECTS": "tests/spark/spark/test_table_reader.py::"
    "test_more_files_than_MOST_FILES_or_bytes_than_MOST_BYTES_are_read_by_delta",
    "spark.table_reader.MOST_BYTES": "tests/spark/spark/test_table_reader.py::"
    "test_more_files_than_MOST_FILES_or_bytes_than_MOST_BYTES_are_read_by_delta",
    "lake.commits.small_commits.MOST_BYTES": "tests/spark/frames/test_small_writes.py::"
    "test_tables_of_more_than_MOST_BYTES_are_merged_by_spark",
    "lake.commits.file_statistics.COUNTED": "tests/spark/lake/commits/test_file_statistics.py::"
    "test_rows_that_stay_in_columns_that_are_not_COUNTED_are_known_by_their_type_alone",
    "frames.row_bytes.MOST_BYTES": "tests/spark/frames/test_row_bytes.py::"
    "test_rows_of_more_than_MOST_BYTES_are_not_brought_to_the_driver",
    "flow.streaming.first_load.SHORT_HISTORY": "tests/spark/flow/streaming/test_first_load.py::"
    "test_it_follows_the_feed_of_a_SHORT_HISTORY_that_only_added_files",
    "flow.source_changes.FENCE_SECONDS": "tests/unit/flow/test_progress.py::"
    "test_after_FENCE_SECONDS_a_fence_is_a_version_like_any_other",
    "lake.commits.commit_identity.HEAD": "tests/unit/lake/commits/test_commit_identity.py::"
    "test_a_commit_is_known_by_the_HEAD_of_its_entry",
    "lake.commits.small_commits.ATTEMPTS": "tests/unit/lake/commits/test_small_commits.py::"
    "test_an_append_beside_others_is_tried_as_many_ATTEMPTS",
    "bronze.ingest.SMALL_BYTES": "tests/spark/bronze/test_ingest.py::"
    "test_files_of_SMALL_BYTES_give_the_same_rows_as_larger_ones",
    "flow.thresholds.COMPARED": "tests/spark/gold/test_change_feed.py::"
    "test_tables_of_more_than_COMPARED_rows_are_replaced",
    "flow.thresholds.SMALL": "tests/spark/gold/test_refresh.py::test_groups_are_kept_of_tables_that_are_not_SMALL",
    "definition.yaml.DEPTH": "tests/unit/definition/reading/test_loader.py::"
    "test_values_nested_deeper_than_DEPTH_are_one_mistake",
    "definition.tables.bronze.DELETE_AT_LEAST": "tests/unit/landing/moves/test_clean_source.py::"
    "test_files_are_deleted_no_sooner_than_DELETE_AT_LEAST_and_moved_at_any_time",
    "definition.pipeline.maintenance.LONGEST": "tests/unit/maintenance/test_optimize_vacuum.py::"
    "test_files_stay_no_longer_than_the_LONGEST",
    "definition.pipeline.maintenance.RETENTION": "tests/unit/maintenance/test_optimize_vacuum.py::"
    "test_files_stay_for_RETENTION_or_longer_and_a_table_is_told_only_of_longer",
}

EXEMPT = {
    "airflow.page.bars.CELL": SHAPE,
    "bronze.file_sizes.LONGEST_END": SHAPE,
    "airflow.page.bars.WIDEST": SHAPE,
    "airflow.page.graph_layout.LOW": SHAPE,
    "airflow.page.graph_layout.SWEEPS": LOOKS,
    "airflow.page.dag_runs.NEWEST": LOOKS,
    "airflow.page.routes.LONGEST": "Delta counts versions by numbers of 64 bits, and no ledger has as many batches",
    "monitor.event_log.MARGIN": SHAPE,
    "dashboard.one_table.SAMPLE_ROWS": LOOKS,
    "dashboard.one_table.SMALL": LOOKS,
    "dashboard.overview.NEWEST": LOOKS,
    "dashboard.overview.RUNS": LOOKS,
    "dashboard.quarantined.EXAMPLES": LOOKS,
    "dashboard.quarantined.FILES": LOOKS,
    "dashboard.runs.USUAL": LOOKS,
    "dashboard.source.DOWN_FOR": TIME,
    "dashboard.source.FRESH_FOR": TIME,
    "dashboard.source.PATIENCE": TIME,
    "dashboard.source.REST": TIME,
    "dashboard.source.UNSEEN_FOR": TIME,
    "flow.verification.proofs.FORM": SHAPE,
    "flow.verification.sample.STEP": SHAPE,
    "frames.difference.compare.PARTS": SHAPE,
    "silver.sampled_records.PARTS": SHAPE,
    "frames.difference.compare.SHOWN": LOOKS,
    "gold.group_state.BUCKETS_OF_A_TASK": SHAPE,
    "gold.affected.reading._FIRST": "a number by which tables are known in a plan",
    "airflow.operators.check_request.ANSWER_WITHIN": TIME,
    "airflow.dags.arguments.ENDS_WITHIN": "given to Airflow as it is, which ends a try that takes longer",
    "airflow.timetable._SHIFTS": SHAPE,
    "airflow.pools.DEFAULT_SLOTS": "given to Airflow as it is, which starts no more jobs at a time",
    "tools.demo.local_airflow.LOCKED_FOR": TIME,
    "tools.demo.local_airflow.POLL_SECONDS": TIME,
    "tools.demo.local_airflow.PORT": "a port",
    "tools.demo.local_airflow.STARTS_WITHIN": TIME,
    "tools.demo.warm_spark.STARTS_WITHIN": TIME,
    "tools.demo.warm_spark.ENDS_WITHIN": TIME,
    "airflow.operators.submit.RESCHEDULE_AFTER": TIME,
    "airflow.sensors.sqs.LONG_POLL": TIME,
    "airflow.sensors.trigger.AT_LEAST_EVERY": TIME,
    "airflow.sensors.trigger.AT_MOST_EVERY": TIME,
    "airflow.sensors.trigger.OF_THE_TIME": "how often it is checked: no result depends on it",
    "spark.java.ANSWERS_WITHIN": TIME,
    "cli.narrow.GAP": LOOKS,
    "cli.app.GARBAGE_AFTER": "how often Python looks for objects that hold each other: no result depends on it",
    "cli.building.import_.PARTIAL": "an exit code",
    "storage.aws.ARROW_ATTEMPTS": "given to Arrow as it is",
    "storage.aws.ATTEMPTS": "given to delta-rs as it is",
    "storage.aws.BRIEF_ATTEMPTS": "given to delta-rs and Arrow as it is",
    "storage.aws.BRIEF_CONNECT_SECONDS": TIME,
    "storage.aws.BRIEF_REQUEST_SECONDS": TIME,
    "storage.aws.BRIEF_RETRY_SECONDS": TIME,
    "storage.aws.CONNECT_SECONDS": TIME,
    "storage.aws.REQUEST_SECONDS": TIME,
    "storage.aws.RETRY_SECONDS": TIME,
    "tools.testing.given.APART": TIME,
    "flow.streaming.foreach_batch.POLL": TIME,
    "flow.streaming.stream_checkpoint.BASE": "a word of Delta's own",
    "jobs.continuous.POLL_SECONDS": TIME,
    "jobs.parallel.STOPPED_EVERY": TIME,
    "launch.continuous.SHORTEST": TIME,
    "tools.demo.demo.SHOWN": LOOKS,
    "lake.commits.file_statistics.DIGITS": "the digits of a double; values of so many "
    "and one more are in both writers' tests",
    "lake.commits.small_commits.LEGACY_WRITER": "a word of Delta's protocol",
    "gold.exact_sum.COUNT": SHAPE,
    "gold.exact_sum.PLACES": SHAPE,
    "gold.exact_sum._NINES": SHAPE,
    "bronze.text.csv_files.MUCH": "who looks at the files, the driver or the executors: each is looked at all the same",
    "spark.executors.AT_ONCE": "how many threads share the files: each is looked at all the same",
    "spark.executors.TASKS": "how many tasks share the files: each is looked at all the same",
    "lake.exclusion.lease.RENEWED_AFTER": TIME,
    "lake.exclusion.lock.POLL_SECONDS": TIME,
    "lake.exclusion.fence.ATTEMPTS": "other programs' commits that come between: the last attempt is as the first",
    "lake.exclusion.fence.SETTLES": TIME,
    "launch.spark_server.LAST_LINES": "lines that are shown of a log",
    "spark.connect.ANSWERS_WITHIN": TIME,
    "spark.connect_retries.LONGEST_PAUSE": TIME,
    "spark.connect_retries.RETRIES": TIME,
    "gold.partial_aggregates.LAYOUT": SHAPE,
    "processes.GRACE": TIME,
    "launch.pipeline.LONGEST_WAIT": TIME,
    "launch.warm_job.PATIENCE": TIME,
    "launch.warm_job.POLL_SECONDS": TIME,
    "launch.warm_spark.DEFAULT_MINUTES": TIME,
    "jobs.warm.PATIENCE": TIME,
    "jobs.warm.FIRST_RUN_SECONDS": TIME,
    "jobs.warm.POLL_SECONDS": TIME,
    "tools.scaffold.render._WIDTH": LOOKS,
    "tools.scaffold.all_rows._BATCH": "how many at a time; the rows are the same",
    "tools.scaffold.all_rows._FIRST": "by which readings are chosen that all rows then prove",
    "storage.concurrent.CONCURRENT_CALLS": "how many at a time; the results come in their order",
    "tools.simulators.engine.DAY": SAMPLE,
    "tools.simulators.engine._DIGITS": SAMPLE,
    "tools.simulators.heart_rate.EVERY": SAMPLE,
    "tools.simulators.heart_rate.INVALID_SHARE": SAMPLE,
    "tools.simulators.heart_rate.PATIENTS": SAMPLE,
    "tools.simulators.heart_rate.STRANGERS": SAMPLE,
    "tools.simulators.heart_rate.UNKNOWN_SHARE": SAMPLE,
    "tools.simulators.online_school.INVALID_SHARE": SAMPLE,
    "tools.simulators.online_school.SPAN": SAMPLE,
    "tools.simulators.retail.INVALID_SHARE": SAMPLE,
    "tools.simulators.retail.SPAN": SAMPLE,
    "monitor.streams.BEAT": TIME,
    "cli.options.WATCHED_EVERY": TIME,
    "lake.commits.compaction.ROW_GROUP": SHAPE,
    "bronze.text.undecodable.FIRST": SHAPE,
    "bronze.text.text_decoder.HEAD": SHAPE,
    "bronze.text.xml_content.SHOWN": LOOKS,
    "witness.difference.SHOWN": LOOKS,
    "witness.statistics.SHOWN": LOOKS,
    "witness.statistics.MILLISECOND": SHAPE,
    "tools.sqlshell.names.SHOWN": LOOKS,
    "silver.verify_silver.SHOWN": LOOKS,
    "witness.landed_files.SHOWN": LOOKS,
    "witness.encodings.HEAD": SHAPE,
    "witness.moments.CYCLE": SHAPE,
    "witness.moments.CYCLE_DAYS": SHAPE,
    "witness.moments.DAY": SHAPE,
    "witness.moments.MICROSECOND": SHAPE,
    "witness.moments.SECOND": SHAPE,
    "tools.scaffold.text_encoding.LONGEST": SHAPE,
    "bronze.parquet.texts._SECOND": SHAPE,
    "monitor.verify_damage.SHOWN": LOOKS,
    "schema.column_inference._FIRST": "the others are looked at if these have no value",
    "schema.text_values._SHORT": "no time with a seventh digit of a second is as short, and a longer one is looked at",
}


def test_every_threshold_has_a_test_that_crosses_it_or_says_why_not() -> None:
    listed = [*CROSSED, *EXEMPT]
    assert sorted(listed) == sorted(set(listed)), "each is in one list only"
    found = set(thresholds())
    assert found - set(listed) == set(), "new numbers: write a test that crosses them, and name it in CROSSED"
    assert set(listed) - found == set(), "they are gone from the package: take them off the lists"


def test_the_tests_that_cross_thresholds_are_there() -> None:
    for threshold, named in CROSSED.items():
        file, _, function = named.partition("::")
        text = (ROOT / file).read_text()
        tests = {node.name: node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)}
        assert function in tests, f"{threshold}: no test {named}"
        said = ast.get_source_segment(text, tests[function]) or ""
        assert threshold.rpartition(".")[2] in said, f"{named} does not speak of {threshold}"


def thresholds() -> Iterator[str]:
    """The names of constants that are numbers, by module: ``stores.AT_ONCE``."""
    for path in sorted(PACKAGE.rglob("*.py")):
        module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Assign):
                targets, value = node.targets, node.value
            elif isinstance(node, ast.AnnAssign) and node.value is not None:
                targets, value = [node.target], node.value
            else:
                continue
            for target in targets:
                if isinstance(target, ast.Name) and target.id.strip("_").isupper() and _is_number(value):
                    yield f"{module}.{target.id}"


def _is_number(value: ast.expr) -> bool:
    if isinstance(value, ast.Constant):
        return isinstance(value.value, (int, float)) and not isinstance(value.value, bool)
    if isinstance(value, ast.BinOp):
        return _is_number(value.left) and _is_number(value.right)
    if isinstance(value, ast.UnaryOp):
        return _is_number(value.operand)
    if isinstance(value, ast.Call) and isinstance(value.func, (ast.Name, ast.Attribute)):
        name = value.func.id if isinstance(value.func, ast.Name) else value.func.attr
        given = [*value.args, *(keyword.value for keyword in value.keywords)]
        return name in MADE_BY and all(map(_is_number, given))
    return False
