-- Suppliers of a nation with more of some parts than half of what they shipped in a year.
SELECT s.s_suppkey, s.s_name, s.s_address
FROM supplier AS s
JOIN nation AS n ON s.s_nationkey = n.n_nationkey
WHERE n.n_name = 'CANADA' AND s.s_suppkey IN (
  SELECT ps.ps_suppkey
  FROM partsupp AS ps
  JOIN (
    SELECT l_partkey, l_suppkey, 0.5 * sum(l_quantity) AS half
    FROM lineitem
    WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'
    GROUP BY l_partkey, l_suppkey
  ) AS shipped ON ps.ps_partkey = shipped.l_partkey AND ps.ps_suppkey = shipped.l_suppkey
  WHERE ps.ps_availqty > shipped.half AND ps.ps_partkey IN (SELECT p_partkey FROM part WHERE p_name LIKE 'forest%'))
ORDER BY s_name
