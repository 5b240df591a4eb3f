SELECT l_shipmode, count(*) FILTER (left(o_orderpriority, 1) IN ('1', '2')) AS high_line_count,
  count(*) FILTER (left(o_orderpriority, 1) NOT IN ('1', '2')) AS low_line_count
FROM orders, lineitem
WHERE o_orderkey = l_orderkey AND l_shipmode IN ('MAIL', 'SHIP') AND l_shipdate < l_commitdate
  AND l_commitdate < l_receiptdate AND year(l_receiptdate) = 1994
GROUP BY 1
