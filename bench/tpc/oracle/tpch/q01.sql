SELECT l_returnflag, l_linestatus, sum(l_quantity) AS sum_qty, sum(l_extendedprice) AS sum_base_price,
  sum(paid) AS sum_disc_price, sum(paid + paid * l_tax) AS sum_charge, sum(l_quantity) / count(*) AS avg_qty,
  sum(l_extendedprice) / count(*) AS avg_price, sum(l_discount) / count(*) AS avg_disc, count(*) AS count_order
FROM lineitem WHERE l_shipdate < '1998-09-03' GROUP BY ALL
