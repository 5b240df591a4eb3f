WITH chosen AS (
  SELECT *, left(c_phone, 2) AS code FROM customer WHERE left(c_phone, 2) IN ('13', '31', '23', '29', '30', '18', '17'))
SELECT code AS cntrycode, count(*) AS numcust, sum(c_acctbal) AS totacctbal FROM chosen
WHERE c_acctbal > (SELECT sum(c_acctbal) / count(*) FROM chosen WHERE c_acctbal > 0)
  AND c_custkey NOT IN (SELECT o_custkey FROM orders)
GROUP BY 1
