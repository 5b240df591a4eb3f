SELECT year(o_orderdate) AS o_year, coalesce(sum(paid) FILTER (n2.n_name = 'BRAZIL'), 0) / sum(paid) AS mkt_share
FROM part, supplier, lineitem, orders, customer, nation n1, nation n2, region
WHERE p_partkey = l_partkey AND s_suppkey = l_suppkey AND l_orderkey = o_orderkey AND o_custkey = c_custkey
  AND c_nationkey = n1.n_nationkey AND n1.n_regionkey = r_regionkey AND r_name = 'AMERICA'
  AND s_nationkey = n2.n_nationkey AND year(o_orderdate) IN (1995, 1996) AND p_type = 'ECONOMY ANODIZED STEEL'
GROUP BY ALL
