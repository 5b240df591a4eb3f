-- Parts beside their whole: a table, and another one that is made of it, both of gold.
SELECT d.region, d.category, sum(d.revenue) AS revenue, try_divide(sum(d.revenue), max(r.revenue)) AS share
FROM daily_sales AS d
JOIN region_sales AS r ON d.region = r.region
GROUP BY d.region, d.category
