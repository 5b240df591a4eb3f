SELECT sum(paid) AS revenue FROM (
  SELECT *, CASE p_brand WHEN 'Brand#12' THEN 1 WHEN 'Brand#23' THEN 2 WHEN 'Brand#34' THEN 3 END AS kind
  FROM lineitem, part WHERE p_partkey = l_partkey)
WHERE l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON' AND p_size BETWEEN 1 AND kind * 5
  AND l_quantity >= [1, 10, 20][kind] AND l_quantity <= [1, 10, 20][kind] + 10
  AND list_contains([['SM CASE', 'SM BOX', 'SM PACK', 'SM PKG'], ['MED BAG', 'MED BOX', 'MED PKG', 'MED PACK'],
                     ['LG CASE', 'LG BOX', 'LG PACK', 'LG PKG']][kind], p_container)
