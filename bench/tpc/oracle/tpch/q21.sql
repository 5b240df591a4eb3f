WITH late AS (
  SELECT l_orderkey, count(DISTINCT l_suppkey) AS suppliers,
    count(DISTINCT l_suppkey) FILTER (l_receiptdate > l_commitdate) AS late_ones
  FROM lineitem GROUP BY 1)
SELECT s_name, count(*) AS numwait
FROM supplier, lineitem l, orders, nation, late
WHERE s_suppkey = l.l_suppkey AND o_orderkey = l.l_orderkey AND late.l_orderkey = o_orderkey AND o_orderstatus = 'F'
  AND l.l_receiptdate > l.l_commitdate AND suppliers > 1 AND late_ones = 1 AND s_nationkey = n_nationkey
  AND n_name = 'SAUDI ARABIA'
GROUP BY 1
