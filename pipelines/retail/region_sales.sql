-- Gold over gold: sums of the sums, kept up to date by the days that change there.
SELECT region, sum(orders) AS orders, sum(sold) AS sold, sum(revenue) AS revenue, max(day) AS last_day
FROM daily_sales
GROUP BY region
