-- The value of a nation's stock, by part.
SELECT ps.ps_partkey, sum(ps.ps_supplycost * ps.ps_availqty) AS value
FROM partsupp AS ps
JOIN supplier AS s ON ps.ps_suppkey = s.s_suppkey
JOIN nation AS n ON s.s_nationkey = n.n_nationkey
WHERE n.n_name = 'GERMANY'
GROUP BY ps.ps_partkey
