SELECT c_custkey, any_value(c_name) AS c_name, sum(paid) AS revenue, any_value(c_acctbal) AS c_acctbal,
  any_value(n_name) AS n_name, any_value(c_address) AS c_address, any_value(c_phone) AS c_phone,
  any_value(c_comment) AS c_comment
FROM customer, orders, lineitem, nation
WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND c_nationkey = n_nationkey AND l_returnflag = 'R'
  AND date_trunc('quarter', o_orderdate) = '1993-10-01'
GROUP BY c_custkey
