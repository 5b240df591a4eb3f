-- Profit by nation and year, of parts with a word in their name.
SELECT n.n_name AS nation, year(o.o_orderdate) AS o_year,
  sum(l.l_extendedprice * (1 - l.l_discount) - ps.ps_supplycost * l.l_quantity) AS sum_profit
FROM lineitem AS l
JOIN part AS p ON l.l_partkey = p.p_partkey
JOIN supplier AS s ON l.l_suppkey = s.s_suppkey
JOIN partsupp AS ps ON l.l_partkey = ps.ps_partkey AND l.l_suppkey = ps.ps_suppkey
JOIN orders AS o ON l.l_orderkey = o.o_orderkey
JOIN nation AS n ON s.s_nationkey = n.n_nationkey
WHERE p.p_name LIKE '%green%'
GROUP BY n.n_name, year(o.o_orderdate)
ORDER BY nation, o_year DESC
