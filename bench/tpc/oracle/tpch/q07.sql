SELECT n1.n_name AS supp_nation, n2.n_name AS cust_nation, year(l_shipdate) AS l_year, sum(paid) AS revenue
FROM supplier, lineitem, orders, customer, nation n1, nation n2
WHERE s_suppkey = l_suppkey AND o_orderkey = l_orderkey AND c_custkey = o_custkey AND s_nationkey = n1.n_nationkey
  AND c_nationkey = n2.n_nationkey AND (n1.n_name, n2.n_name) IN (('FRANCE', 'GERMANY'), ('GERMANY', 'FRANCE'))
  AND year(l_shipdate) IN (1995, 1996)
GROUP BY ALL
