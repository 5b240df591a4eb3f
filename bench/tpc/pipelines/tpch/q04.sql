-- Orders with a late line, by priority.
SELECT o.o_orderpriority, count(*) AS order_count
FROM orders AS o
LEFT SEMI JOIN lineitem AS l ON o.o_orderkey = l.l_orderkey AND l.l_commitdate < l.l_receiptdate
WHERE o.o_orderdate >= DATE '1993-07-01' AND o.o_orderdate < DATE '1993-10-01'
GROUP BY o.o_orderpriority
ORDER BY o_orderpriority
