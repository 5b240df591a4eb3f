"""Functions of Spark SQL that are known here: what is not among them may do anything, and is treated so.

Names are those of Spark's reference, in small letters: https://spark.apache.org/docs/latest/api/sql/
"""

from __future__ import annotations

PARTIAL = {
    "count": "count", "count_if": "count_if", "sum": "sum", "avg": "avg", "mean": "avg", "min": "min", "max": "max",
    "stddev": "stddev_samp", "std": "stddev_samp", "stddev_samp": "stddev_samp", "stddev_pop": "stddev_pop",
    "variance": "var_samp", "var_samp": "var_samp", "var_pop": "var_pop",
}  # fmt: skip
"""Aggregate functions that are kept up to date by what rows add and take away, each with its plain name."""

_OF_GROUP = """
    approx_count_distinct approx_percentile percentile_approx percentile percentile_cont percentile_disc median mode
    collect_list collect_set array_agg listagg string_agg bool_and bool_or every some any bit_and bit_or bit_xor
    min_by max_by corr covar_pop covar_samp kurtosis skewness regr_avgx regr_avgy regr_count regr_intercept regr_r2
    regr_slope regr_sxx regr_sxy regr_syy try_sum try_avg product histogram_numeric grouping_id
"""
OF_GROUP = frozenset(_OF_GROUP.split())
"""Aggregate functions whose value is a function of a group's rows, and of all of them."""

_CHANCE = """
    first first_value last last_value any_value rand randn random uuid shuffle now current_date current_timestamp
    current_time localtimestamp localtime curdate unix_timestamp_now monotonically_increasing_id spark_partition_id
    input_file_name input_file_block_start input_file_block_length current_user user session_user current_database
    current_schema current_catalog version randstr uniform
"""
CHANCE = frozenset(_CHANCE.split())
"""Functions that may have another value next time, though the rows are the same."""

BARE = CHANCE & {
    "current_date", "current_timestamp", "current_time", "current_user", "user", "session_user", "localtimestamp",
}  # fmt: skip
"""Those of them that are called without parentheses, too."""

_SCALAR = """
    abs acos acosh add_months array array_contains array_distinct array_except array_intersect array_join array_max
    array_min array_position array_remove array_repeat array_size array_sort array_union ascii asin asinh atan atan2
    atanh base64 between bigint bin binary bit_count bit_length boolean bround btrim cardinality case cast cbrt ceil
    ceiling char char_length character_length chr coalesce concat concat_ws contains conv cos cosh cot crc32 csc date
    date_add date_diff date_format date_from_unix_date date_part date_sub date_trunc dateadd datediff datepart day
    dayname dayofmonth dayofweek dayofyear dec decimal decode degrees div double e element_at elt encode endswith
    equal_null exp expm1 extract factorial find_in_set flatten float floor format_number format_string from_unixtime
    from_utc_timestamp get get_json_object getbit greatest hash hex hour hypot if ifnull ilike initcap instr int
    is_valid_utf8 isnan isnotnull isnull last_day lcase least left len length levenshtein like ln locate log log10
    log1p log2 lower lpad ltrim make_date make_timestamp make_timestamp_ntz map map_keys map_values mask md5 minute mod
    month monthname months_between named_struct nanvl negative next_day not nullif nullifzero numeric nvl nvl2
    octet_length overlay parse_url pi pmod position positive pow power quarter radians regexp regexp_count
    regexp_extract regexp_extract_all regexp_instr regexp_like regexp_replace regexp_substr repeat replace reverse right
    rint rlike round rpad rtrim sec second sequence sha sha1 sha2 shiftleft shiftright shiftrightunsigned sign signum
    sin sinh size slice smallint sort_array soundex space split split_part sqrt startswith string struct substr
    substring substring_index tan tanh timestamp timestamp_micros timestamp_millis timestamp_seconds timestampadd
    timestampdiff tinyint to_char to_date to_number to_timestamp to_timestamp_ntz to_unix_timestamp to_utc_timestamp
    translate trim trunc try_add try_cast try_divide try_element_at try_multiply try_subtract try_to_date
    try_to_number try_to_timestamp ucase unhex unix_date unix_micros unix_millis unix_seconds upper varchar
    weekday weekofyear width_bucket xxhash64 year zeroifnull
"""
SCALAR = frozenset(_SCALAR.split())
"""Functions of the values of one row, which have one value for the same arguments, whenever they are called."""

_WORDS = """
    and or not in when then else on by select where having between filter over as like rlike ilike distinct all
    interval case exists from group order within is end using values escape to for
"""
WORDS = frozenset(_WORDS.split())
"""Words of the language that a parenthesis may stand behind."""
