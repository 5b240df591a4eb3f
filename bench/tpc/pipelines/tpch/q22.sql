-- Those with more than that who never ordered, by country.
SELECT substring(c.c_phone, 1, 2) AS cntrycode, count(*) AS numcust, sum(c.c_acctbal) AS totacctbal
FROM customer AS c
JOIN q22_average AS a ON c.c_acctbal > a.average
LEFT ANTI JOIN orders AS o ON c.c_custkey = o.o_custkey
WHERE substring(c.c_phone, 1, 2) IN ('13', '31', '23', '29', '30', '18', '17')
GROUP BY substring(c.c_phone, 1, 2)
ORDER BY cntrycode
