-- What two nations ship to each other.
SELECT sn.n_name AS supp_nation, cn.n_name AS cust_nation, year(l.l_shipdate) AS l_year,
  sum(l.l_extendedprice * (1 - l.l_discount)) AS revenue
FROM lineitem AS l
JOIN supplier AS s ON l.l_suppkey = s.s_suppkey
JOIN orders AS o ON l.l_orderkey = o.o_orderkey
JOIN customer AS c ON o.o_custkey = c.c_custkey
JOIN nation AS sn ON s.s_nationkey = sn.n_nationkey
JOIN nation AS cn ON c.c_nationkey = cn.n_nationkey
WHERE ((sn.n_name = 'FRANCE' AND cn.n_name = 'GERMANY') OR (sn.n_name = 'GERMANY' AND cn.n_name = 'FRANCE'))
  AND l.l_shipdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31'
GROUP BY sn.n_name, cn.n_name, year(l.l_shipdate)
ORDER BY supp_nation, cust_nation, l_year
