SELECT c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity) AS quantity
FROM customer, orders, lineitem WHERE c_custkey = o_custkey AND o_orderkey = l_orderkey
GROUP BY ALL HAVING sum(l_quantity) > 300
