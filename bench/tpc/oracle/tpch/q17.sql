SELECT sum(l_extendedprice) / 7 AS avg_yearly FROM lineitem, part
WHERE p_partkey = l_partkey AND p_brand = 'Brand#23' AND p_container = 'MED BOX'
  AND l_quantity < (SELECT sum(i.l_quantity) / count(*) / 5 FROM lineitem i WHERE i.l_partkey = p_partkey)
