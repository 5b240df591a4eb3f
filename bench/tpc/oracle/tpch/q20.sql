SELECT s_suppkey, s_name, s_address FROM supplier, nation
WHERE s_nationkey = n_nationkey AND n_name = 'CANADA' AND EXISTS (
  FROM partsupp, part WHERE ps_suppkey = s_suppkey AND ps_partkey = p_partkey AND starts_with(p_name, 'forest')
  AND ps_availqty * 2 > (SELECT sum(l_quantity) FROM lineitem
                         WHERE l_partkey = ps_partkey AND l_suppkey = ps_suppkey AND year(l_shipdate) = 1994))
