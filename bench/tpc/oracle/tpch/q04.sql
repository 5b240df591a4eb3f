SELECT o_orderpriority, count(*) AS order_count FROM orders
WHERE date_trunc('quarter', o_orderdate) = '1993-07-01'
  AND EXISTS (FROM lineitem WHERE l_orderkey = o_orderkey AND l_receiptdate > l_commitdate)
GROUP BY 1
