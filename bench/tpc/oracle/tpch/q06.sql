SELECT sum(l_extendedprice * l_discount) AS revenue FROM lineitem
WHERE year(l_shipdate) = 1994 AND l_discount >= 0.05 AND l_discount <= 0.07 AND l_quantity < 24
