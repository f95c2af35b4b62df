-- Why did requesters go back, and how long did each kind of loss hold them up?
SELECT file, cause, count(*) AS times, sum(packets_resent) AS packets_resent,
       round(median(recovery_ns) / 1e3, 1) AS median_us,
       round(max(recovery_ns) / 1e3, 1) AS longest_us,
       count(*) FILTER (recovered_packet IS NULL) AS never_seen_to_end
FROM recoveries
GROUP BY ALL
ORDER BY file, times DESC, cause;
