-- Suppliers of a nation who alone kept an order of several waiting; the first 100 are the reader's to take.
SELECT s.s_name, count(*) AS numwait
FROM lineitem AS l
JOIN orders AS o ON l.l_orderkey = o.o_orderkey
JOIN supplier AS s ON l.l_suppkey = s.s_suppkey
JOIN nation AS n ON s.s_nationkey = n.n_nationkey
WHERE n.n_name = 'SAUDI ARABIA' AND o.o_orderstatus = 'F' AND l.l_receiptdate > l.l_commitdate
  AND EXISTS (SELECT 1 FROM lineitem AS other WHERE other.l_orderkey = l.l_orderkey AND other.l_suppkey <> l.l_suppkey)
  AND NOT EXISTS (
    SELECT 1 FROM lineitem AS late
    WHERE late.l_orderkey = l.l_orderkey AND late.l_suppkey <> l.l_suppkey AND late.l_receiptdate > late.l_commitdate)
GROUP BY s.s_name
ORDER BY numwait DESC, s_name
