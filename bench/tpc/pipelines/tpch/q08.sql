-- A nation's share of the market of a region.
SELECT year(o.o_orderdate) AS o_year,
  sum(CASE WHEN sn.n_name = 'BRAZIL' THEN l.l_extendedprice * (1 - l.l_discount) ELSE 0 END)
    / sum(l.l_extendedprice * (1 - l.l_discount)) AS mkt_share
FROM lineitem AS l
JOIN part AS p ON l.l_partkey = p.p_partkey
JOIN supplier AS s ON l.l_suppkey = s.s_suppkey
JOIN orders AS o ON l.l_orderkey = o.o_orderkey
JOIN customer AS c ON o.o_custkey = c.c_custkey
JOIN nation AS cn ON c.c_nationkey = cn.n_nationkey
JOIN region AS r ON cn.n_regionkey = r.r_regionkey
JOIN nation AS sn ON s.s_nationkey = sn.n_nationkey
WHERE r.r_name = 'AMERICA' AND o.o_orderdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31'
  AND p.p_type = 'ECONOMY ANODIZED STEEL'
GROUP BY year(o.o_orderdate)
ORDER BY o_year
