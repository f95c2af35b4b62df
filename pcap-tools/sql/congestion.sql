-- Who is told of congestion: packets marked CE on the way to a host, CNPs that it sent for them, and
-- CNPs that it received for what it sends itself?
WITH marked AS (
    SELECT file, dst AS host, count(*) FILTER (ecn = 'CE') AS ce_received, count(*) AS received,
           count(*) FILTER (operation = 'CNP') AS cnps_received
    FROM packets WHERE dst IS NOT NULL GROUP BY ALL
),
notified AS (
    SELECT file, src AS host, count(*) AS cnps_sent
    FROM packets WHERE operation = 'CNP' GROUP BY ALL
)
SELECT m.file, m.host, m.received, m.ce_received, coalesce(n.cnps_sent, 0) AS cnps_sent, m.cnps_received
FROM marked m
LEFT JOIN notified n ON n.file = m.file AND n.host = m.host
ORDER BY m.ce_received DESC, m.cnps_received DESC, m.file, m.host;
