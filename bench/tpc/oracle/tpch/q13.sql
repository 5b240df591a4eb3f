SELECT c_count, count(*) AS custdist FROM (
  SELECT c_custkey, (SELECT count(*) FROM orders WHERE o_custkey = c_custkey
                     AND NOT regexp_matches(o_comment, 'special.*requests')) AS c_count FROM customer)
GROUP BY 1
